"""The `completion` command: prints the script that teaches a shell to complete queuectl."""

import click

from queuectl.cli.command import Command
from queuectl.cli.render import say

SHELLS = ("bash", "zsh", "fish")

INSTALL = {
    "bash": 'eval "$(queuectl completion bash)"   in ~/.bashrc',
    "zsh": 'eval "$(queuectl completion zsh)"   in ~/.zshrc, after compinit',
    "fish": "queuectl completion fish > ~/.config/fish/completions/queuectl.fish",
}


@click.command(
    cls=Command,
    examples="""
    echo 'eval "$(queuectl completion bash)"' >> ~/.bashrc
    echo 'eval "$(queuectl completion zsh)"' >> ~/.zshrc    # after compinit
    queuectl completion fish > ~/.config/fish/completions/queuectl.fish
    queuectl completion bash > ~/.local/share/bash-completion/completions/queuectl
    """,
)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print a shell completion script.

    It completes commands and options, the ids of jobs that the command can be used on, queues,
    tags, nodes, states, settings and their values, and files. Load it from your shell's start-up
    file, as the examples show, and open a new shell.
    """
    import sys

    from queuectl.cli.main import COMPLETE, root
    from queuectl.cli.shells import script

    click.echo(script(shell, root, COMPLETE))
    if sys.stdout.isatty():
        say(f"To load it in every new shell: {INSTALL[shell]}")

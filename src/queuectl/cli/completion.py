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

    It completes commands, options, states, settings, queues and the ids of jobs. Load it from
    your shell's start-up file, as the examples show, and open a new shell.
    """
    import sys

    from click.shell_completion import ShellComplete, get_completion_class

    from queuectl.cli.main import COMPLETE, root

    maker = get_completion_class(shell)
    assert maker is not None, f"click has no completion for {shell}"
    # Not the class's own source(): for bash it runs bash, to warn about old versions of it.
    click.echo(ShellComplete.source(maker(root, {}, "queuectl", COMPLETE)))
    if sys.stdout.isatty():
        say(f"To load it in every new shell: {INSTALL[shell]}")

"""Completion: the scripts that shells load, the command that prints them, and our answer to TAB.

Whoever presses TAB is in the middle of a line. So the answer is quick or doesn't come, and
nothing else is ever printed.
"""

import os
import sys

import click
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ZshComplete

from queuectl.cli.command import COMPLETE, Command
from queuectl.cli.render import say
from queuectl.errors import EXIT_DONE, EXIT_FAILED

_BASH = """\
%(complete_func)s() {
    local response completion
    response=$(env %(complete_var)s=bash_complete COMP_WORDS="${COMP_LINE:0:$COMP_POINT}" \
COMP_CWORD= COMP_WORDBREAKS="$COMP_WORDBREAKS" "$1" 2>/dev/null)
    COMPREPLY=()
    while IFS= read -r completion; do
        case ${completion%%%%,*} in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("${completion#*,}") ;;
        esac
    done <<< "$response"
}

complete -o nosort -F %(complete_func)s %(prog_name)s 2>/dev/null \
|| complete -F %(complete_func)s %(prog_name)s
"""
_FISH = """\
function %(complete_func)s
    set -l line (commandline -cp | string collect)
    set -l word (commandline -t | string collect)
    set -l response (env %(complete_var)s=fish_complete COMP_WORDS=$line COMP_CWORD=$word \
%(prog_name)s 2>/dev/null)
    for completion in $response
        set -l parts (string split --max 1 "," -- $completion)
        switch $parts[1]
            case dir
                __fish_complete_directories $parts[2]
            case file
                __fish_complete_path $parts[2]
            case plain
                echo $parts[2]
        end
    end
end

complete --no-files --command %(prog_name)s --arguments "(%(complete_func)s)"
"""
_SPECIAL = frozenset(" \t\"'\\$&|;<>()*?[]{}~#!`")
"""What a shell would take for something else than a part of a word."""


class Bash(BashComplete):
    """Bash. It breaks words at `:`, `=` and the like, which we see whole, and quotes nothing."""

    source_template = _BASH
    _broken = ""
    """What of the word stands before the part that bash will replace."""
    _quoted = False

    def source(self) -> str:
        """Return the script; without running bash to see how old it is."""
        return self.source_template % self.source_vars()

    def get_completion_args(self) -> tuple[list[str], str]:
        """Read the line up to the cursor; with COMP_CWORD, the words as bash has broken them."""
        if os.environ.get("COMP_CWORD"):
            return super().get_completion_args()
        words, self._quoted = _split(os.environ["COMP_WORDS"])
        *args, incomplete = words[1:] or [""]
        breaks = os.environ.get("COMP_WORDBREAKS", "")
        if not self._quoted:
            at = max((incomplete.rfind(mark) for mark in breaks), default=-1)
            self._broken = incomplete[: at + 1]
        return args, incomplete

    def format_completion(self, item: CompletionItem) -> str:
        """Write what takes the place of the word, or of its last part."""
        value = str(item.value).removeprefix(self._broken)
        if item.type == "plain" and not self._quoted:
            value = "".join(f"\\{mark}" if mark in _SPECIAL else mark for mark in value)
        return f"{item.type},{value}"


def _split(line: str) -> tuple[list[str], bool]:
    """Return the words of a line, of which the last is being typed, and whether a quote is open."""
    import shlex

    lexer = shlex.shlex(line + "\0", posix=True)  # marks the end, also behind a space
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    try:
        words += lexer
        is_open = False
    except ValueError:
        words.append(lexer.token)
        is_open = True
    words[-1] = words[-1].rstrip("\0")
    return words, is_open


class Zsh(ZshComplete):
    """Zsh, as click has it."""


class Fish(FishComplete):
    """Fish. Candidates may have commas in them."""

    source_template = _FISH


SHELLS: dict[str, type[Bash] | type[Zsh] | type[Fish]] = {"bash": Bash, "zsh": Zsh, "fish": Fish}


def complete(root: click.Command, variable: str, instruction: str) -> int:
    """Print candidates for a command line, as its shell wants them; returns the exit code."""
    shell, _, wish = instruction.partition("_")
    if shell not in SHELLS or wish not in ("source", "complete"):
        return EXIT_FAILED
    asked = SHELLS[shell](root, {}, "queuectl", variable)
    if wish == "source":
        click.echo(asked.source())
        return EXIT_DONE
    from queuectl.cli.completers import teach

    sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - until the end
    teach(root)
    try:
        click.echo(asked.complete())
    except Exception:  # noqa: BLE001 - whatever it is, it isn't worth a broken line
        return EXIT_FAILED
    return EXIT_DONE


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
@click.argument("shell", type=click.Choice(list(SHELLS)))
def completion(shell: str) -> None:
    """Print a shell completion script.

    It completes commands and options, the ids of jobs that the command can be used on, queues,
    tags, nodes, states, settings and their values, and files. Load it from your shell's start-up
    file, as the examples show, and open a new shell.
    """
    root = click.get_current_context().find_root().command
    click.echo(SHELLS[shell](root, {}, "queuectl", COMPLETE).source())
    if sys.stdout.isatty():
        say(f"To load it in every new shell: {INSTALL[shell]}")

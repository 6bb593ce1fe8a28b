"""`completion`: the scripts, and what they complete to."""

import subprocess

import pytest

from tests.cli.conftest import COMMAND, Cli


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_names_the_command(cli: Cli, shell: str) -> None:
    result = cli.ok("completion", shell)
    assert "_QUEUECTL_COMPLETE" in result.stdout
    assert "queuectl" in result.stdout
    assert result.stderr == ""
    assert not cli.db.exists()


def test_bash_takes_the_script(cli: Cli) -> None:
    script = cli.ok("completion", "bash").stdout
    done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_unknown_shell_is_refused(cli: Cli) -> None:
    assert "tcsh" in cli.refused("completion", "tcsh", code=2)
    missing = cli.refused("completion", code=2)
    assert missing.endswith("Choose from: bash, zsh, fish. See queuectl completion --help.")
    assert "\\" not in missing


def complete(cli: Cli, line: str) -> list[str]:
    words = line.split(" ")
    asked = {
        "_QUEUECTL_COMPLETE": "bash_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }
    done = subprocess.run(
        [COMMAND], env=cli.env | asked, cwd=cli.folder, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    return [item.partition(",")[2] for item in done.stdout.splitlines() if item]


def test_commands_options_states_settings_and_ids_complete(cli: Cli) -> None:
    cli.add("true", "--id", "nightly-1", "--queue", "mail")
    assert complete(cli, "queuectl pru") == ["prune"]
    assert complete(cli, "queuectl dlq r") == ["retry"]
    assert "--older-than" in complete(cli, "queuectl prune --o")
    assert complete(cli, "queuectl list --state comp") == ["completed"]
    assert complete(cli, "queuectl config get max_r") == ["max_retries"]
    assert complete(cli, "queuectl cancel nig") == ["nightly-1"]
    assert complete(cli, "queuectl dlq show nig") == ["nightly-1"]
    assert complete(cli, "queuectl pause m") == ["mail"]


def test_without_a_database_ids_complete_to_nothing(cli: Cli) -> None:
    assert complete(cli, "queuectl cancel nig") == []
    assert complete(cli, "queuectl pause m") == []
    assert not cli.db.exists()

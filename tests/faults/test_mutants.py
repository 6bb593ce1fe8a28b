"""The table of mutants still fits the code, and the script knows a catch when it sees one."""

import ast
import subprocess
import sys

import pytest

from tests.faults.mutants import MUTANTS
from tests.faults.mutants.hunt import hunt, main
from tests.faults.mutants.mutant import Edit, Mutant, sources
from tests.servers.shared import CHECKOUT

FIFTEEN = {
    "fence-dropped",
    "synchronous-off",
    "deferred-begin",
    "host-clock-for-leases",
    "rescue-without-kill",
    "claim-without-lock",
    "finish-by-id-alone",
    "acknowledged-before-commit",
    "lease-renewed-after-loss",
    "output-read-after-unlink",
    "promote-ignoring-run-at",
    "retry-not-counted",
    "wake-up-lost",
    "drain-that-kills",
    "unlock-before-write",
}
"""Those that the harness was asked to catch; there may be more ways to make one."""
CHEAP = "tests/unit/test_lifecycle.py::TestDecide::test_exit_0_completes"


def test_all_that_were_asked_for_are_there() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(names) == len(set(names))
    missing = {name for name in FIFTEEN if not any(made.startswith(name) for made in names)}
    assert missing == set()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_it_fits_the_code(mutant: Mutant) -> None:
    assert mutant.edits
    assert mutant.tests
    texts = sources(CHECKOUT)
    for edit in mutant.edits:
        name, changed = edit.applied_to(texts)
        assert changed != texts[name]
        ast.parse(changed)
        texts[name] = changed


def test_code_that_moves_is_found_again() -> None:
    edit = Edit(
        old="        if ready:\n            go(now)\n", new="        if ready:\n            go()\n"
    )
    moved = "def far():\n    if ready:\n        go(now)\n    return\n"
    assert edit.applied_to({"a.py": "\npass\n", "b.py": f"\n{moved}"}) == (
        "b.py",
        "\ndef far():\n    if ready:\n        go()\n    return\n",
    )
    with pytest.raises(LookupError, match="2 times"):
        edit.applied_to({"a.py": f"\n{moved}", "b.py": f"\n{moved}"})
    twice = "\nclass A:\n    def f(self): x = 1\n    def g(self): x = 1\n"
    _, text = Edit(old="x = 1", new="x = 2", inside="A.g").applied_to({"a.py": twice})
    assert text == "\nclass A:\n    def f(self): x = 1\n    def g(self): x = 2\n"


@pytest.mark.timeout(600)
def test_the_tests_that_shall_catch_them_exist() -> None:
    named = sorted({test for mutant in MUTANTS for test in mutant.tests})
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *named],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(600)
def test_a_mutant_is_shown_and_caught(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["retry-not-counted"]) == 0
    said = capsys.readouterr().out
    assert "+            return _to(job, State.FAILED, run_at=due)" in said
    [line] = [line for line in said.splitlines()[-1:] if "tests/unit/test_lifecycle.py" in line]
    assert line.startswith("retry-not-counted ")


@pytest.mark.timeout(600)
def test_what_breaks_nothing_or_everything_is_not_caught(
    capsys: pytest.CaptureFixture[str],
) -> None:
    old = "The one place that decides states"
    harmless = Mutant(
        name="harmless",
        broken="A comment says something else.",
        edits=[Edit(old=old, new="A place that decides states")],
        tests=[CHEAP],
    )
    wild = Mutant(
        name="wild",
        broken="It can't even be imported.",
        edits=[Edit(old=f'"""{old}', new=f'nonsense\n"""{old}')],
        tests=[CHEAP],
    )
    assert hunt([harmless, wild]) == 1
    said = capsys.readouterr().out
    assert "NameError" in said
    assert said.splitlines()[-1] == "Not caught each time: harmless, wild."

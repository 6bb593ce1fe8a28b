"""The hunt: each mutant is made, and the tests that claim to catch it are run.

A test that never fails proves nothing. So each mutant is made in a copy of the checkout, shown as
a patch, and the tests that claim to catch it are run there: at least one of them must turn red,
by an assertion. First all of them are run in a copy without a fault, where none may.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from xml.etree import ElementTree

from tests.faults.mutants import MUTANTS
from tests.faults.mutants.mutant import Mutant
from tests.servers.install import install_missing
from tests.servers.shared import CHECKOUT
from tests.support import is_gone, wait_for

COPIED = ("src", "tests", "pyproject.toml")
VERDICTS = ("assert", "Failed: DID NOT RAISE", "queuectl.errors.")
"""How the message of a test begins that found a broken promise, in small letters or not. What
the product says to its users counts; an error that no user could ever see doesn't."""
LONGEST = 900
"""Seconds that the tests of one mutant may take."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of some tests."""

    green: Sequence[str]
    red: Sequence[str]
    """Those that failed by an assertion."""
    broken: Mapping[str, str]
    """Those that failed otherwise, and what they said: that proves nothing."""


@contextmanager
def copy_of_checkout() -> Iterator[Path]:
    """Lend out a copy of what the tests need. All processes that were started there end with it."""
    with tempfile.TemporaryDirectory(prefix="mutant-", ignore_cleanup_errors=True) as folder:
        root = Path(folder)
        for name in COPIED:
            source = CHECKOUT / name
            if source.is_dir():
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(source, root / name, ignore=ignored)
            else:
                shutil.copy2(source, root / name)
        try:
            yield root
        finally:
            end_processes_of(root)


def environment(root: Path) -> dict[str, str]:
    """Return an environment in which the code of a copy runs, in all processes below as well."""
    hidden = ("QUEUECTL_", "PYTEST_")
    outer = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    return outer | {"PYTHONPATH": str(root / "src")}


def end_processes_of(root: Path) -> None:
    """Kill what a broken build has left behind; it has the copy in its environment."""
    mark = os.fsencode(root / "src")
    left = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and mark in (folder / "environ").read_bytes():
                left.append(int(folder.name))
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    for pid in left:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    wait_for(lambda: all(map(is_gone, left)), "what a broken build left to end")


def check_copy_runs(root: Path) -> None:
    """Make sure that it is the code of the copy that runs."""
    where = [sys.executable, "-P", "-c", "import queuectl; print(queuectl.__file__)"]
    said = subprocess.check_output(where, env=environment(root), cwd=root, text=True).strip()
    if not Path(said).is_relative_to(root / "src"):
        raise RuntimeError(f"{said} would be tested, not the copy in {root}.")


def run_tests(root: Path, tests: Sequence[str]) -> Verdict:
    """Run tests in a copy and return what became of them."""
    check_copy_runs(root)
    results = root / "results.xml"
    results.unlink(missing_ok=True)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"),
            *(f"--junitxml={results}", f"--basetemp={root / 'tmp'}", "-o", "junit_family=xunit1"),
            *tests,
        ],
        env=environment(root),
        cwd=root,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LONGEST,
        check=False,
    )
    if done.returncode not in (0, 1) or not results.exists():
        return Verdict([], [], {"all of them": done.stdout})
    return read_results(results)


def read_results(path: Path) -> Verdict:
    """Read what pytest wrote: a failure is of the test itself, an error of what is around it."""
    green, red, broken = [], [], {}
    for case in ElementTree.parse(path).iter("testcase"):
        name = node_id(case)
        failure, error = case.find("failure"), case.find("error")
        if failure is not None and is_verdict(failure.get("message", "")):
            red.append(name)
        elif failure is not None or error is not None:
            trouble = error if failure is None else failure
            assert trouble is not None
            broken[name] = f"{trouble.get('message')}\n{trouble.text}"
        elif case.find("skipped") is not None:
            broken[name] = "skipped"
        else:
            green.append(name)
    return Verdict(green, red, broken)


def node_id(case: ElementTree.Element) -> str:
    """Return the name by which pytest would find a test again."""
    file, place = case.get("file", ""), case.get("classname", "")
    classes = place.removeprefix(file.removesuffix(".py").replace("/", ".")).strip(".")
    return "::".join([file, *filter(None, classes.split(".")), case.get("name", "")])


def is_verdict(message: str) -> bool:
    """Tell whether a test failed because it found a promise broken."""
    return message.lower().startswith(tuple(start.lower() for start in VERDICTS))


def try_unbroken(tests: Sequence[str]) -> bool:
    """Tell whether tests are green in a copy without a fault."""
    with copy_of_checkout() as root:
        verdict = run_tests(root, tests)
    for test in verdict.red:
        print(f"Red without a fault: {test}")
    for test, said in verdict.broken.items():
        print(f"Broken without a fault: {test}: {said}")
    return bool(verdict.green) and not verdict.red and not verdict.broken


def try_mutant(mutant: Mutant, tests: Sequence[str], repeat: int) -> list[Verdict]:
    """Make a broken build, show it, and run tests on it so many times."""
    with copy_of_checkout() as root:
        print(f"\n{mutant.name}: {mutant.broken}")
        for edit in mutant.edits:
            print(edit.apply(root), end="", flush=True)
        verdicts = []
        for _ in range(repeat):
            verdicts.append(run_tests(root, tests))
            end_processes_of(root)
        return verdicts


def tell(mutant: Mutant, verdicts: Sequence[Verdict], seconds: float) -> str:
    """Return a line of the table."""
    caught = [verdict for verdict in verdicts if verdict.red]
    times = "" if len(verdicts) == 1 else f"{len(caught)}/{len(verdicts)} "
    by = "SURVIVED"
    if caught:
        first, *more = caught[0].red
        by = f"{first} and {len(more)} more" if more else first
    return f"{mutant.name:<32} {times}{by} ({seconds:.0f} s)"


def hunt(mutants: Sequence[Mutant], tests: Sequence[str] = (), repeat: int = 1) -> int:
    """Try mutants, against other tests than their own if some are given; 1 if one survives."""
    needed = sorted({test for mutant in mutants for test in tests or mutant.tests})
    if not try_unbroken(needed):
        print("Tests that fail without a fault prove nothing; mend them first.")
        return 1
    lines, survivors = [], []
    for mutant in mutants:
        began = monotonic()
        verdicts = try_mutant(mutant, tests or mutant.tests, repeat)
        line = tell(mutant, verdicts, monotonic() - began)
        print(line, flush=True)
        lines.append(line)
        if not all(verdict.red for verdict in verdicts):
            survivors.append(mutant.name)
            for verdict in verdicts:
                for name, said in verdict.broken.items():
                    print(f"   proves nothing: {name}: {said}")
    print("\n" + "\n".join(lines))
    if survivors:
        print(f"Not caught each time: {', '.join(survivors)}.")
    return 1 if survivors else 0


def main(argv: Sequence[str] | None = None) -> int:
    """Try the mutants that the command line names; fail if one survives."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="which mutants (default: all)")
    parser.add_argument("--repeat", type=int, default=1, help="run each so often, and count")
    parser.add_argument("--tests", nargs="+", default=(), help="try these tests, not the named")
    parser.add_argument("--list", action="store_true", help="list the mutants and exit")
    args = parser.parse_args(argv)
    known = {mutant.name: mutant for mutant in MUTANTS}
    unknown = [name for name in args.names if name not in known]
    if unknown:
        parser.error(f"no such mutant: {', '.join(unknown)}; see --list")
    chosen = [known[name] for name in args.names] or MUTANTS
    if args.list:
        for mutant in chosen:
            print(f"{mutant.name:<32} {mutant.broken}")
        return 0
    install_missing()
    return hunt(chosen, args.tests, args.repeat)

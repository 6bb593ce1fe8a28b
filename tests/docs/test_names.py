"""What our texts call code of ours is there: files, modules, classes, functions, statements."""

import re

import pytest

from tests.docs.markdown import ROOT, blocks, read, table_with
from tests.docs.names import PACKAGE, Code, Said, is_wrong, said_in_docstrings, said_on

PAGES = ["CONTRIBUTING.md", "docs/architecture.md", "docs/design.md", "docs/glossary.md"]
FOREIGN = {
    # Modules and names of others.
    *"asdict click dataclasses marshal os Popen pyproject.toml pytest.mark sqlite3 time".split(),
    *"Any Required NotRequired django.tasks sys.modules transaction.atomic urllib".split(),
    # What the kernel and the databases say.
    *"CLOCK_MONOTONIC COMMIT COPY NOTIFY RLIMIT_AS RLIMIT_RTTIME SIGKILL USR1".split(),
    *"execvp hidepid".split(),
    *"nodes.beat pg_xact_status ssh".split(),
    # What users have or write: files, ids, variables.
    *"job10 queue.db queue.db.d/ queuectl.toml QUEUECTL_MAX_RETRIES QUEUECTL_TOML".split(),
    "user42",
    *"opentelemetry.trace otel TRACEPARENT CUDA_VISIBLE_DEVICES".split(),
    # Names that are for whoever adds something.
    *"AS_IF NAME queue.settings".split(),
}
"""What is said of other things, in the words that a name of ours might have."""


def wrong(said: list[Said]) -> list[str]:
    return [f"{one.where}: {one.text}" for one in said if is_wrong(one, FOREIGN)]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_code_that_is_there(page: str) -> None:
    assert wrong(said_on(page)) == []


def test_docstrings_name_code_that_is_there() -> None:
    said = said_in_docstrings()
    assert len(said) > 300
    assert wrong(said) == []


def test_the_layout_has_every_room_of_the_house() -> None:
    (layout,) = blocks(read("CONTRIBUTING.md"), "text")
    listed = [found[1] for line in layout.lines if (found := re.match(r"  (\w+(?:\.py|/))", line))]
    there = {f"{path.name}/" if path.is_dir() else path.name for path in PACKAGE.iterdir()}
    assert sorted(listed) == sorted(
        there - {"__init__.py", "__main__.py", "__pycache__/", "py.typed"}
    )


def test_what_lives_in_a_file_is_defined_there() -> None:
    rows = table_with(read("docs/architecture.md"), "What", "File", "Name")
    assert len(rows) >= 20
    for row in rows:
        code = Code()
        code.add(PACKAGE / row["File"].strip("`"), "here")
        assert {*re.findall(r"`(\w+)`", row["Name"])} <= code.modules["here"], row


@pytest.mark.parametrize("page", PAGES)
def test_what_is_said_to_be_in_a_file_is_in_it(page: str) -> None:
    for names, path in re.findall(r"((?:`[\w.]+`(?:, | and )?)+) in `([\w/]+\.py)`", read(page)):
        code = Code()
        code.add(next(file for base in (PACKAGE, ROOT) if (file := base / path).exists()), "here")
        for name in re.findall(r"`([\w.]+)`", names):
            first, _, member = name.partition(".")
            assert first in code.modules["here"], (name, path)
            assert not member or member in code.members(first), (name, path)


def test_statements_that_a_database_is_said_to_use_are_its_own_or_shared() -> None:
    rows = table_with(read("docs/architecture.md"), "Database", "Code")
    modules = ("sqlite", "postgresql", "mysql")
    assert len(rows) == len(modules)
    for row, module in zip(rows, modules, strict=True):
        code = Code()
        for name in (module, "shared"):
            code.add(PACKAGE / "store" / "statements" / f"{name}.py", name)
        said = {*re.findall(r"`([A-Z_]+)`", row["Statements, in their order"])}
        assert {"CLAIM", "LOOK"} <= said <= code.defined


@pytest.mark.parametrize(
    "text",
    [
        "store/sql.py",
        "store/engines/",
        "lifecycle.decides",
        "lifecycles.decide",
        "Idiom.claim_all",
        "Idioms.claim",
        "store.nows()",
        "SqlStores",
        "CLAIM_TWICE",
        "open_queues()",
        "claim_twice",
        "queuectl.store.sql",
    ],
)
def test_a_name_that_is_not_there_is_noticed(text: str) -> None:
    assert is_wrong(Said(text, "here", ROOT), FOREIGN)


@pytest.mark.parametrize(
    "text",
    [
        "store/idiom.py",
        "store/statements/",
        "lifecycle.decide",
        "Idiom.claim",
        "PostgresIdiom.jobs",
        "store.clock.now()",
        "queuectl.store.idiom",
        "SqlStore",
        "CLAIM_AT_ONCE",
        "open_queue()",
        "run_at",
        "INSERT INTO jobs (command) VALUES (…)",
        "DuplicateError",
        "TimeoutError",
    ],
)
def test_a_name_that_is_there_is_not(text: str) -> None:
    assert not is_wrong(Said(text, "here", ROOT), FOREIGN)


def test_the_tests_that_pages_name_are_there() -> None:
    cells = re.findall(r"`(tests/\S+\.py)`: ((?:`test_\w+`(?:, )?)+)", read("docs/coming-from.md"))
    named = [(file, name) for file, names in cells for name in re.findall(r"`(\w+)`", names)]
    assert len(named) > 30
    for file, name in named:
        assert re.search(rf"def {name}\(", (ROOT / file).read_text()), name

"""The pages say what the code does: commands, settings, states, schema, version, links."""

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path

import apsw
import click
import pytest

import queuectl
from queuectl import Job, Queue, State, lifecycle
from queuectl.cli.main import root
from queuectl.fields import REQUESTED
from queuectl.job import (
    JOB_COLUMNS,
    Cancelled,
    Exited,
    Expired,
    Lost,
    NotStarted,
    Outcome,
    Released,
    Signalled,
    Strategy,
    TimedOut,
)
from queuectl.lifecycle import Policy
from queuectl.node.signals import orders
from queuectl.report import job_dict
from queuectl.settings import NAMES, SPECS, Settings, Taken
from queuectl.when import format_duration, parse_duration
from tests.docs.markdown import (
    PAGES,
    ROOT,
    anchors,
    blocks,
    links,
    name_of,
    read,
    sections,
    table_with,
)
from tests.unit.samples import SAMPLE

# -- commands -----------------------------------------------------------------------------


def walk(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """Yield every command and subcommand with its full name."""
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=name)
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            assert found is not None
            yield from walk(found, f"{name} {child}")


COMMANDS = dict(walk(root, "queuectl"))
ON_THE_PAGE = {name: command for name, command in COMMANDS.items() if name != "queuectl"}
OTHER_WORDS = {"queuectl submit": "queuectl push"}
"""Commands that are another one by another name: their sections say so, and no more."""
COMMON = {"--db", "--help", "-h"}
SECTIONS = sections(read("docs/commands.md"))


def option_names(command: click.Command) -> set[str]:
    options = [p for p in command.params if isinstance(p, click.Option)]
    return {name for option in options for name in (*option.opts, *option.secondary_opts)}


@pytest.mark.parametrize("name", ON_THE_PAGE)
def test_help_has_a_sentence_and_an_example(name: str) -> None:
    command = ON_THE_PAGE[name]
    # A command remembers the help option of its first context, so it has to be a real one.
    text = command.get_help(command.make_context(name, [], resilient_parsing=True))
    assert command.help and command.help.strip().splitlines()[0].endswith((".", ":"))
    examples = text.partition("Examples:")[2]
    assert name in examples


@pytest.mark.parametrize("name", ON_THE_PAGE)
def test_a_section_has_every_option_and_an_example(name: str) -> None:
    section = SECTIONS[name]
    assert any(name in line for block in blocks(section, "sh") for line in block.lines)
    if name in OTHER_WORDS:
        assert f"(#{OTHER_WORDS[name].replace(' ', '-')})" in section
        return
    named = set(re.findall(r"`(--?[\w-]+)", section))
    assert option_names(ON_THE_PAGE[name]) - COMMON <= named


@pytest.mark.parametrize("name", ON_THE_PAGE)
def test_a_table_has_no_option_that_does_not_exist(name: str) -> None:
    rows = re.findall(r"^\| (`-.*?) \|", SECTIONS[name], flags=re.MULTILINE)
    named = {option for row in rows for option in re.findall(r"`(--?[\w-]+)", row)}
    assert named == (set() if name in OTHER_WORDS else option_names(ON_THE_PAGE[name]) - COMMON)


def test_there_is_no_section_for_a_command_that_is_not_there() -> None:
    headings = {heading for heading in SECTIONS if heading.startswith("queuectl")}
    assert headings == set(ON_THE_PAGE)


def test_what_all_commands_share_is_explained_once() -> None:
    shared = SECTIONS["What all commands share"]
    assert COMMON | {"--version", "-V", "--json"} <= set(re.findall(r"[` ](--?[\w-]+)", shared))


# -- fields of a job ---------------------------------------------------------------------------


def test_the_table_of_fields_is_that_of_the_code() -> None:
    rows = table_with(SECTIONS["queuectl enqueue"], "Field", "Or", "Meaning")
    other = {f.name: {*f.also} for f in REQUESTED if not f.gives}
    for field in REQUESTED:
        if field.gives:
            other[field.gives].add(field.name)
    written = {row["Field"].strip("`"): set(re.findall(r"`(\w+)`", row["Or"])) for row in rows}
    assert list(written.items()) == list(other.items())
    assert all(row["Meaning"] for row in rows)


def test_the_options_for_fields_are_listed_with_what_they_take() -> None:
    rows = table_with(SECTIONS["queuectl enqueue"], "Option", "Meaning")
    listed = [row["Option"].replace("`", "") for row in rows]
    wanted = []
    for field in REQUESTED:
        if field.flags:
            first, *more = "/".join(field.flags).split("/")
            wanted.append(", ".join((f"{first} {field.metavar or ''}".strip(), *more)))
    at = listed.index(wanted[0])
    assert listed[at : at + len(wanted)] == wanted


def test_the_fields_of_json_are_listed_in_their_order() -> None:
    listed = SECTIONS["queuectl list"].partition("an array of jobs:")[2].partition(". New")[0]
    assert re.findall(r"`(\w+)`", listed) == list(job_dict(SAMPLE))


# -- settings -----------------------------------------------------------------------------


def test_every_setting_is_on_its_page_with_its_default_and_its_other_names() -> None:
    rows = table_with(read("docs/settings.md"), "Name", "Default", "Also called", "Meaning")
    written = {
        row["Name"]: (row["Default"], set(re.findall(r"`(\w+)`", row["Also called"])))
        for row in rows
    }
    defaults = Settings()
    assert written == {
        f"`{name}`": (f"`{defaults.text(name)}`", set(SPECS[name].aliases)) for name in NAMES
    }
    assert all(row["Meaning"] for row in rows)


def test_what_takes_a_setting_up_is_said_as_the_code_knows_it() -> None:
    rows = table_with(read("docs/settings.md"), "Takes effect", "Settings")
    written = {row["Takes effect"]: set(re.findall(r"`(\w+)`", row["Settings"])) for row in rows}
    for when in (Taken.JOBS, Taken.RUNS):
        assert written[when] == {name for name in NAMES if SPECS[name].taken == when}
    assert [when for when in written if when.startswith(Taken.AT_ONCE)]


def test_every_order_is_in_the_table_of_signals() -> None:
    rows = table_with(read("docs/operations.md"), "Signal", "The node", "Running jobs")
    named = {f"SIG{name}" for row in rows for name in re.findall(r"`([A-Z\d]+)`", row["Signal"])}
    assert {number.name for number in orders(background=True)} <= named


# -- lifecycle ----------------------------------------------------------------------------

LIFECYCLE = read("docs/lifecycle.md")
NOW = 1_700_000_000_000
POLICY = Policy(max_retries=2, max_crashes=3)
OUTCOMES: dict[str, Outcome] = {
    "exited with 0": Exited(0),
    "exited with another code": Exited(7),
    "killed by a signal": Signalled(11),
    "timed out": TimedOut(5_000),
    "not started": NotStarted("command not found: x"),
    "cancelled": Cancelled("cancelled by somebody"),
    "expired": Expired(86_400_000),
    "released": Released(),
    "lost": Lost("its node died"),
}
CONDITIONS: dict[str, Callable[[Job], bool]] = {
    "always": lambda job: True,
    "otherwise": lambda job: True,
    "it is finished by hand": lambda job: job.is_forced,
    "a cancel was asked for": lambda job: job.cancel_reason is not None,
    "crashes reach `max_crashes`": lambda job: job.crashes + 1 >= POLICY.max_crashes,
    "retries left": lambda job: job.failures < POLICY.max_retries,
}
ROWS = table_with(LIFECYCLE, "Outcome", "Condition", "New state", "failures", "crashes", "run_at")


ASKED = ((None, None), ("by somebody", None), ("by somebody", ""))
"""What somebody may have asked of a run: nothing, a cancel, or that its job is finished."""


def a_job(
    *,
    failures: int = 0,
    crashes: int = 0,
    cancel_reason: str | None = None,
    forced: str | None = None,
) -> Job:
    values = dict.fromkeys(JOB_COLUMNS) | {
        "seq": 1,
        "id": "job",
        "queue": "default",
        "state": "processing",
        "priority": 0,
        "run_at": NOW - 60_000,
        "attempts": 9,
        "failures": failures,
        "crashes": crashes,
        "cancel_reason": cancel_reason,
        "forced": forced,
        "created_at": NOW - 90_000,
        "updated_at": NOW - 30_000,
    }
    return Job.from_row([values[name] for name in JOB_COLUMNS])


def first_row(outcome: str, job: Job) -> dict[str, str]:
    return next(
        row
        for row in ROWS
        if outcome in row["Outcome"].split(", ") and CONDITIONS[row["Condition"]](job)
    )


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_the_transition_table_is_what_decide_does(outcome: str) -> None:
    for failures, crashes, (why, forced) in itertools.product(range(4), range(4), ASKED):
        job = a_job(failures=failures, crashes=crashes, cancel_reason=why, forced=forced)
        row = first_row(outcome, job)
        decided = lifecycle.decide(job, OUTCOMES[outcome], NOW, POLICY)
        due = {
            "same": None,
            "now": NOW,
            "now + backoff": NOW + lifecycle.backoff(job, failures + 1, POLICY),
        }
        assert decided.state == row["New state"]
        assert decided.failures == failures + (row["failures"] == "+1")
        assert decided.crashes == crashes + (row["crashes"] == "+1")
        assert decided.run_at == due[row["run_at"]]


def test_every_row_of_the_transition_table_is_needed() -> None:
    used = [
        ROWS.index(first_row(outcome, a_job(failures=f, crashes=c, cancel_reason=why, forced=how)))
        for outcome in OUTCOMES
        for f, c, (why, how) in itertools.product(range(4), range(4), ASKED)
    ]
    assert set(used) == set(range(len(ROWS)))


def test_the_diagram_agrees_with_the_table() -> None:
    (diagram,) = blocks(LIFECYCLE, "mermaid")
    edges = {
        (found[1], found[2])
        for line in diagram.lines
        if (found := re.match(r"\s+(\S+) --> (\w+):", line))
    }
    ends = {row["New state"] for row in ROWS}
    assert {to for source, to in edges if source == "processing"} == ends
    assert {to for source, to in edges if source == "[*]"} == {"pending", "blocked"}
    named = {state for edge in edges for state in edge} - {"[*]"}
    assert named == {state.value for state in State}


def test_every_state_is_explained() -> None:
    rows = table_with(LIFECYCLE, "State", "Meaning")
    assert [row["State"] for row in rows] == [f"`{state}`" for state in State]


def test_the_backoff_table_is_what_backoff_does() -> None:
    for row in table_with(LIFECYCLE, "Strategy", "Wait"):
        words = re.findall(r"`([\w]+)`(?:, `(\w+)` (\w+))?", row["Strategy"])[0]
        name, setting, value = words
        policy = Policy(
            backoff=Strategy(name),
            backoff_base=float(value) if setting == "backoff_base" else 2.0,
            retry_delay=parse_duration(value) if setting == "retry_delay" else 2_000,
        )
        waits = {number: wait for number, wait in row.items() if number.isdecimal()}
        assert len(waits) == 8
        for number, wait in waits.items():
            assert format_duration(lifecycle.backoff(a_job(), int(number), policy)) == wait


# -- schema -------------------------------------------------------------------------------


@pytest.fixture
def columns(tmp_path: Path) -> dict[str, list[str]]:
    """The tables of a real database, with their columns."""
    Queue(str(tmp_path / "queue.db")).close()
    db = apsw.Connection(str(tmp_path / "queue.db"))
    names = [
        str(name)
        for (name,) in db.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        )
    ]
    found = {
        name: [str(row[1]) for row in db.execute(f"PRAGMA table_info({name})")] for name in names
    }
    db.close()
    return found


def test_the_schema_page_has_every_table_and_column(columns: dict[str, list[str]]) -> None:
    page = read("docs/schema.md")
    jobs = [
        column
        for row in table_with(page, "Column", "Type", "Default", "Meaning")
        for column in re.findall(r"`(\w+)`", row["Column"])
    ]
    others = {
        row["Table"].strip("`"): re.findall(r"`(\w+)`", row["Columns"])
        for row in table_with(page, "Table", "Columns")
    }
    assert {"jobs": sorted(jobs)} | {name: sorted(found) for name, found in others.items()} == {
        name: sorted(found) for name, found in columns.items()
    }


def test_the_sql_on_the_schema_page_runs(tmp_path: Path) -> None:
    with Queue(str(tmp_path / "queue.db")) as queue:
        db = apsw.Connection(str(tmp_path / "queue.db"))
        for block in blocks(read("docs/schema.md"), "sql"):
            db.execute("\n".join(block.lines)).fetchall()
        db.close()
        titles = ["sort", r"printf '%s\n' 'a b'", "make report"]
        assert [job.title for job in queue.list()] == titles
        assert queue.store.jobs.stdin(queue.get("with-stdin")) == b"b\na\n"


# -- the rest -----------------------------------------------------------------------------


def test_the_newest_version_in_the_changelog_is_that_of_the_package() -> None:
    versions = re.findall(r"^## \[(\d[^\]]*)\] - \d{4}-\d\d-\d\d$", read("CHANGELOG.md"), re.M)
    assert versions[0] == queuectl.__version__


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for link in links(text):
        if link.startswith(("https:", "http:", "mailto:")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert target.is_relative_to(ROOT), link
        if anchor:
            assert anchor in anchors(target.read_text(encoding="utf-8")), link


def test_nobody_is_sent_to_a_package_of_somebody_else() -> None:
    sources = sorted((ROOT / "src").rglob("*.py"))
    told = [page for page in (*PAGES, *sources) if "install 'queuectl" in page.read_text()]
    assert told == []


def test_the_glossary_has_the_words_of_states_and_outcomes() -> None:
    glossary = read("docs/glossary.md")
    for state in (State.BLOCKED, State.PENDING, State.FAILED, State.DEAD):
        assert f"**{state.capitalize()}**" in glossary
    for kind in (Exited, Signalled, TimedOut, Cancelled, NotStarted, Lost, Released):
        assert kind.name in glossary


def test_the_python_page_names_fields_that_jobs_have() -> None:
    text = read("docs/python.md").partition("A `Job` is a frozen dataclass:")[2].partition(".")[0]
    assert set(re.findall(r"`(\w+)`", text)) <= {field.name for field in fields(Job)}

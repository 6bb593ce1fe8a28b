"""The table of fields: it has all that jobs have, and nothing else repeats it."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

import queuectl
from queuectl.cli.enqueue import enqueue
from queuectl.fields import COPIED, FIELDS, KEPT, REQUESTED, Field, Keywords, Kind
from queuectl.job import JOB_COLUMNS, Job, NewJob
from queuectl.report import job_dict
from queuectl.settings import NAMES, SPECS, Taken
from queuectl.store.statements.shared import NEW_COLUMNS
from queuectl.values import fields
from tests.unit.samples import SAMPLE

SOURCE = Path(queuectl.__file__).parent


def names(some: tuple[Field, ...]) -> list[str]:
    return [field.name for field in some]


class TestTable:
    def test_no_name_stands_for_two_fields(self) -> None:
        known = [name for field in FIELDS for name in (field.name, *field.also)]
        assert len(known) == len(set(known))

    def test_a_new_job_has_what_can_be_requested(self) -> None:
        # Nothing to ask for: set by a schedule, an end, an HTTP request, limits of the queue.
        new = {f.name for f in fields(NewJob)} - {"tick", "hook", "body_digest", "is_limited"}
        assert {f.name for f in REQUESTED if not (f.gives or f.within)} == new
        assert {f.gives for f in REQUESTED if f.gives} <= {f.name for f in fields(NewJob)}
        assert list(Keywords.__annotations__) == names(REQUESTED)

    def test_a_job_has_what_is_stored(self) -> None:
        stored = {field.column for field in FIELDS} - {""}
        assert stored == {f.name for f in fields(Job)}
        assert stored == set(JOB_COLUMNS)
        assert {f.name for f in KEPT} <= stored

    def test_what_is_copied_has_a_column_of_a_new_job(self) -> None:
        asked = {field.column for field in REQUESTED} - {""}
        assert {field.column for field in COPIED} < asked < set(NEW_COLUMNS)
        assert len(NEW_COLUMNS) == len(set(NEW_COLUMNS))

    def test_the_settings_that_new_jobs_take_up_are_those_that_fill_a_field(self) -> None:
        filling = {field.setting for field in FIELDS if field.setting}
        assert filling == {name for name in NAMES if SPECS[name].taken == Taken.JOBS}

    def test_what_is_read_like_a_setting_is_filled_by_the_one_of_its_name(self) -> None:
        read = [f for f in FIELDS if f.kind in ("number", "wait", "strategy", "program")]
        assert [field.setting for field in read] == [field.name for field in read]

    def test_secrets_are_in_no_words(self) -> None:
        secret = {field.name for field in FIELDS if field.is_secret}
        quiet = {f.name for kind in (Job, NewJob) for f in fields(kind) if not f.repr}
        assert secret == quiet

    def test_every_kind_is_used(self) -> None:
        assert {field.kind for field in FIELDS} == set(get_args(Kind))

    def test_json_has_what_is_shown(self) -> None:
        stored = {f.name for f in fields(Job)} - {
            "seq",
            "cancel_reason",
            "tick",
            "vtime",
            "parked",
            "handler",
            "forced",
            "body_digest",
            "has_children",
        }
        assert set(job_dict(SAMPLE)) == stored | {
            *("schedule", "scheduled_for", "paused_at", "paused_by", "held", "hook_of"),
            *("type", "data_base64", "trace_id", "at_once"),
        }

    @pytest.mark.parametrize("field", [f for f in REQUESTED if f.flags], ids=lambda f: f.name)
    def test_an_option_gives_its_field(self, field: Field) -> None:
        (param,) = (param for param in enqueue.params if param.name == field.name)
        assert "/".join((*param.opts, *param.secondary_opts)) == "/".join(field.flags)


# -- one place ------------------------------------------------------------------------------


def words_of(path: Path) -> Iterator[str]:
    """Yield the names and the words in the texts of a module."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Attribute(attr=name) | ast.Name(id=name) | ast.keyword(arg=str(name)):
                yield name
            case ast.arg(arg=name):
                yield name
            case ast.Constant(value=str(text)):
                yield from text.replace(",", " ").split()


def test_a_field_is_named_where_it_is_defined_and_where_it_matters() -> None:
    """A plain field needs a line in the table, its type in `job`, and a column; no more."""
    found = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if {"max_backoff", "--max-backoff", "max_backoff_seconds"}.intersection(words_of(path))
    }
    columns = {
        f"store/migrations/m0001_baseline/{db}.py" for db in "mysql postgresql sqlite".split()
    }
    # Data jobs leave it to their workers.
    open_to_workers = {"enqueueing.py", "node/config.py"}
    # Deliveries of webhooks say what theirs is.
    of_deliveries = {"webhook.py"}
    # Forms put it where one looks for it.
    on_forms = {"web/pages/forms.py"}
    assert found == {
        *("fields.py", "job.py", "settings.py", "lifecycle.py"),
        *open_to_workers,
        *of_deliveries,
        *on_forms,
        *columns,
    }

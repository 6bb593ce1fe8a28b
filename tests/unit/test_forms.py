"""Forms: each field that can be asked for has its place, or is left out on purpose."""

from typing import Any

from queuectl.access import Grant, Kind, Role
from queuectl.bound_values import NAMES as BOUNDS
from queuectl.fields import REQUESTED
from queuectl.limits import Limits
from queuectl.queue_limits import DEFAULTS
from queuectl.report import limits_dict
from queuectl.web.call import Call
from queuectl.web.pages import forms
from tests.support import Lab


def names(parts: "tuple[forms.Part, ...]") -> list[str]:
    return [one.name for part in parts for one in part.inputs]


def values(parts: "tuple[forms.Part, ...]") -> dict[str, str]:
    return {one.name: one.value for part in parts for one in part.inputs if one.value}


def call(lab: Lab, *roles: Role) -> Call:
    grant = Grant(
        id="g", kind=Kind.TOKEN, name="g", digest="", roles=roles, created_at=0, created_by=""
    )
    return Call(queue=lab.queue, grant=grant)


def test_each_field_of_a_job_is_asked_for_once() -> None:
    asked = names(forms.of_new_job("default"))
    known = [field.name for field in REQUESTED if not field.gives]
    assert sorted(asked) == sorted(set(known) - forms.NOT_ASKED)


def test_what_can_be_set_on_a_queue_is_asked_for(lab: Lab) -> None:
    boss = call(lab, *Role)
    parts = forms.of_limits(limits_dict(Limits()), boss)
    own = {name for name in limits_dict(Limits()) if name != "defaults"}
    assert set(names(parts)) == own | set(DEFAULTS)
    may_not_submit = forms.of_limits(limits_dict(Limits()), call(lab, Role.ADMIN))
    assert set(names(parts)) - set(names(may_not_submit)) == {
        *("on_success", "on_failure", "on_dead"),
        *BOUNDS,
    }


FULL: dict[str, Any] = {
    "command": "make report",
    "priority": 3,
    "timeout": "30m",
    "retry_delay": "90s",
    "tags": ["a", "b"],
    "keys": ["tenant=acme"],
    "on_dead": "echo dead",
    "cwd": "/tmp",
    "env": {"TOKEN": "hidden"},
    "unique": "k",
}


def test_what_a_job_is_stands_in_the_form_as_people_write_it(lab: Lab) -> None:
    job = lab.queue.enqueue(FULL)
    said = values(forms.of_edited(call(lab, *Role), job))
    assert (
        said
        | {
            "command": "make report",
            "priority": "3",
            "timeout": "30m",
            "retry_delay": "1m30s",
            "tags": "a, b",
            "keys": "tenant=acme",
            "on_dead": "echo dead",
        }
        == said
    )
    assert "hidden" not in str(said)
    assert "unique" not in names(forms.of_edited(call(lab, *Role), job))


def test_who_may_not_submit_or_see_secrets_is_not_asked_what_runs(lab: Lab) -> None:
    job, plain = lab.queue.enqueue(FULL), lab.queue.enqueue("true")
    work = {field.name for field in REQUESTED if field.is_work}
    assert not work & set(names(forms.of_edited(call(lab, Role.ADMIN), job)))
    assert not work & set(names(forms.of_clone(call(lab, Role.SUBMIT), job)))
    assert "command" in names(forms.of_clone(call(lab, Role.SUBMIT), plain))
    assert "command" in names(forms.of_clone(call(lab, Role.SUBMIT, Role.ADMIN), job))


def test_programs_data_and_schedules(lab: Lab) -> None:
    boss = call(lab, *Role)
    argv = lab.queue.enqueue(["echo", "a b", "c"])
    assert values(forms.of_edited(boss, argv))["argv"] == "echo\na b\nc"
    data = lab.queue.push("d", b"\xff", type="mail")
    assert not {"command", "argv", "shell"} & set(names(forms.of_edited(boss, data)))
    made = forms.of_jobs_made({"command": "true", "timeout": 90, "tags": ["x", "y"]})
    said = values(made)
    assert said == {"job.command": "true", "job.timeout": "90", "job.tags": "x, y"}
    assert all(one.empty == "null" for part in made for one in part.inputs)

"""Pages with forms: new jobs, other jobs like one, changed jobs, schedules, limits of queues."""

from typing import Any

from queuectl import cloning
from queuectl.access import Right
from queuectl.job import DEFAULT_QUEUE
from queuectl.report import limits_dict
from queuectl.web.call import Call
from queuectl.web.pages import forms, words
from queuectl.web.pages.forms import Form, Input, Part
from queuectl.web.pages.page import Pages
from queuectl.web.route import Param, Scope
from queuectl.web.schemas import NAME

pages = Pages()
_TEMPLATE = "form.html"


@pages.show(
    "/new/job",
    _TEMPLATE,
    needs=Right.SUBMIT,
    query=(Param(name="queue", schema=NAME, about="The queue that is proposed."),),
)
def new_job(call: Call) -> dict[str, Any]:
    """Ask for a job."""
    call.need(Right.SUBMIT, "To enqueue a job")
    only = call.grant.queues[0] if call.grant.queues else DEFAULT_QUEUE
    form = Form(
        method="POST",
        path="/jobs",
        button="Enqueue",
        done="The job is enqueued.",
        go="job",
        parts=forms.of_new_job(call.query.get("queue", only)),
    )
    return _shown(call, "New job", [form], back=("Jobs", "/jobs"))


@pages.show("/jobs/{id}/clone", _TEMPLATE, needs=Right.SUBMIT)
def clone(call: Call) -> dict[str, Any]:
    """Ask for another job like one."""
    call.need(Right.SUBMIT, "To enqueue a job")
    found = call.job()
    cloning.check(found)
    path = f"/jobs/{words.part(found.id)}"
    form = Form(
        method="POST",
        path=f"{path}/clone",
        button="Enqueue",
        done="The job is enqueued.",
        go="job",
        inside="changes",
        parts=forms.of_clone(call, found),
    )
    notes = ["It gets all that the other was asked for, also its variables, data and input."]
    left_out = cloning.own(found)
    if found.unique_key is not None:
        left_out = (f"Its unique key {found.unique_key!r}, if a job has it then.", *left_out)
    return _shown(
        call,
        "Another job like this",
        [form],
        back=(found.title, path),
        notes=notes,
        left_out=left_out,
    )


@pages.show("/jobs/{id}/edit", _TEMPLATE, needs=Right.OPERATE)
def edit(call: Call) -> dict[str, Any]:
    """Ask what a job that waits is to be."""
    found = call.job()
    path = f"/jobs/{words.part(found.id)}"
    form = Form(
        method="PATCH",
        path=path,
        button="Change",
        done="The job is changed.",
        go=path,
        parts=forms.of_edited(call, found),
    )
    notes = []
    if found.env and call.may(Right.SECRETS):
        notes.append(f"Variables are laid over those that it has: {', '.join(sorted(found.env))}.")
    return _shown(call, "Change this job", [form], back=(found.title, path), notes=notes)


@pages.show("/new/schedule", _TEMPLATE, needs=Right.SUBMIT, scope=Scope.ALL)
def new_schedule(call: Call) -> dict[str, Any]:
    """Ask for a schedule."""
    call.need(Right.SUBMIT, "To add a schedule")
    form = Form(
        method="PUT",
        path="/schedules/{name}",
        button="Add",
        done="The schedule is added.",
        go="/schedules/{name}",
        preview=True,
        parts=(forms.of_rule(None), *forms.of_jobs_made({}), forms.of_policy(None)),
    )
    return _shown(call, "New schedule", [form], back=("Schedules", "/schedules"))


@pages.show("/schedules/{name}/edit", _TEMPLATE, needs=Right.SUBMIT, scope=Scope.ALL)
def edit_schedule(call: Call) -> dict[str, Any]:
    """Ask what a schedule is to be."""
    call.need(Right.SUBMIT, "To change a schedule")
    found = call.queue.schedules.get(call.path["name"])
    path = f"/schedules/{words.part(found.name)}"
    hidden = () if call.may(Right.SECRETS) else ("data", "data_base64")
    request = {name: it for name, it in found.request.items() if name not in hidden}
    form = Form(
        method="PATCH",
        path=path,
        button="Change",
        done="The schedule is changed.",
        go=path,
        preview=True,
        parts=(
            forms.of_rule(found),
            *forms.of_jobs_made(request),
            forms.of_policy(found),
        ),
    )
    return _shown(call, "Change this schedule", [form], back=(found.name, path))


@pages.show("/queues/{name}/limits", _TEMPLATE, needs=Right.ADMIN, scope=Scope.ALL)
def limits(call: Call) -> dict[str, Any]:
    """Ask what a queue allows, and what it is to be called."""
    name = call.path["name"]
    path = f"/queues/{words.part(name)}"
    allowed = Form(
        method="PATCH",
        path=f"{path}/limits",
        button="Set",
        done="The limits are set.",
        go=path,
        title="What it allows",
        parts=forms.of_limits(limits_dict(call.queue.limits.get(name)), call),
    )
    called = Form(
        method="POST",
        path=f"{path}/rename",
        button="Rename",
        done="The queue is renamed, with its jobs, limits and history.",
        go="/queues/{to}",
        title="What it is called",
        parts=(Part(inputs=(Input(name="to", label="New name", required=True),)),),
    )
    return _shown(call, f"Queue {name}", [allowed, called], back=(name, path))


def _shown(
    call: Call,
    heading: str,
    asked: list[Form],
    *,
    back: tuple[str, str],
    notes: list[str] | None = None,
    left_out: tuple[str, ...] = (),
) -> dict[str, Any]:
    return {
        "heading": heading,
        "forms": asked,
        "back": {"text": back[0], "path": back[1]},
        "notes": notes or [],
        "left_out": left_out,
        "queues": forms.queues_of(call),
    }

"""How a job is titled for people: what it runs, and those of its parameters that don't show there.

So the jobs of a sweep whose parameters come as variables, and those of a graph that have names, can
be told apart wherever they are listed. Programs read commands and parameters by themselves.
"""

from shlex import quote

from queuectl.job import Job
from queuectl.parameters import INDEX, LINE, NAME, OURS, Parameters, legible, variable_of

LONGEST_VALUE = 40
LONGEST_OWN = 120
"""Letters of all parameters together."""
MARK = "..."


def titled(job: Job, longest: int | None = None) -> str:
    """Return what a job runs, and what it has to itself besides: `python train.py [seed=3]`.

    If it is longer than asked for, the command gives way first.
    """
    return with_own(job.title, own_of(job), longest)


def own_of(job: Job) -> str:
    """Return the parameters of a job that can't be seen in what it runs: `seed=3, size=10`."""
    return own_told(job.title, job.parameters, job.id) if job.parameters else ""


def with_own(title: str, own: str, longest: int | None = None) -> str:
    """Put together what a job runs and what it has to itself."""
    if not own:
        return title
    if longest is not None and len(title) + len(own) + 3 > longest:
        room = max(longest - len(own) - 3, longest // 3)
        title = _cut(title, room)
    return f"{title} [{own}]"


def own_told(title: str, parameters: Parameters, id: str) -> str:
    """Return the parameters that can't be seen in what a job of this id runs.

    What stands there once is seen as one of them only: of `--lr 1` where `lr` and `seed` are 1, it
    is `lr`. One that is called as a variable isn't seen. A number is left out if there is more.
    """
    shown = {name: legible(it) for name, it in parameters.items()}
    if LINE in shown:
        shown = {name: it for name, it in shown.items() if name == LINE or name not in OURS}
    elif len(shown) > 1:
        shown.pop(INDEX, None)
    if shown.get(NAME) == id:
        del shown[NAME]
    left, told = title, set[str]()
    for name in sorted(shown, key=lambda name: name not in title):
        variable = variable_of(name)
        at = -1
        if f"${variable}" not in title and f"${{{variable}" not in title:
            word = quote(shown[name])
            at = _place(left, word)
            if at < 0:
                word = shown[name]
                at = _place(left, word)
        if at < 0:
            told.add(name)
        else:
            left = f"{left[:at]}\0{left[at + len(word) :]}"
    found = [f"{name}={_cut(it, LONGEST_VALUE)}" for name, it in shown.items() if name in told]
    return _cut(", ".join(found), LONGEST_OWN)


def _place(text: str, value: str) -> int:
    """Return where a value stands in a text, and not just as a part of a word or number; or -1."""
    at = text.find(value) if value else -1
    while at >= 0:
        end = at + len(value)
        before, after = text[max(at - 2, 0) : at][::-1], text[end : end + 2]
        if not (_goes_on(before) or _goes_on(after)):
            return at
        at = text.find(value, at + 1)
    return -1


def _goes_on(near: str) -> bool:
    """Tell whether a word or number goes on with what is next to it."""
    return near[:1].isalnum() or (near[:1] == "." and near[1:].isdigit())


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: max(longest - len(MARK), 0)].rstrip()}{MARK}"

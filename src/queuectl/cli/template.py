r"""Lines in a form that the user gives: `{id}\t{command}`."""

from collections.abc import Iterator
from itertools import chain, zip_longest
from string import Formatter

from queuectl.cli.columns import check, for_programs
from queuectl.cli.render import safe
from queuectl.errors import UsageError
from queuectl.facts import Pause, RunProgress
from queuectl.job import Job, Usage

_ESCAPES = {"\\t": "\t", "\\n": "\n", "\\r": "\r", "\\\\": "\\"}


class Template:
    """A text with the names of fields in braces. Nothing else can be said in it."""

    def __init__(self, text: str) -> None:
        """Read it; a field that jobs don't have is a `UsageError`."""
        self._literals = [""]
        self.names: tuple[str, ...] = ()
        """The fields in it."""
        for literal, name in _parts(text):
            self._literals[-1] += literal
            if name is not None:
                self.names += (name,)
                self._literals.append("")

    def fill(
        self,
        job: Job,
        now: int,
        pause: Pause | None = None,
        progress: RunProgress | None = None,
        used: Usage | None = None,
    ) -> str:
        """Return the line for a job. What the job brings in can't end it, nor harm a terminal."""
        values = map(safe, for_programs(job, self.names, now, pause, progress, used))
        # One more piece of text than there are fields: before, between and behind them.
        return "".join(chain.from_iterable(zip_longest(self._literals, values, fillvalue="")))


def _parts(text: str) -> Iterator[tuple[str, str | None]]:
    """Yield pieces of text, each with the field behind it."""
    try:
        for literal, name, spec, conversion in Formatter().parse(text):
            if spec or conversion:
                raise UsageError(
                    f"A format takes plain fields, such as {{{name}}}; --columns aligns them."
                )
            yield _unescape(literal), None if name is None else check(name)
    except ValueError:
        raise UsageError(
            f"The format {text!r} has a brace without its other half; write {{{{ for a brace."
        ) from None


def _unescape(text: str) -> str:
    """Turn what people write in single quotes into what they mean."""
    import re

    return re.sub(r"\\[tnr\\]", lambda found: _ESCAPES[found[0]], text)

"""What a measure consists of: subjects, each of which is run once in every round."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from bench.figures import Reading
from bench.lab import Lab


class Subject:
    """Something that can be measured, in a lab that it leaves as it found it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def warm_up(self) -> None:
        """Run once without being counted. A subject with a choice finds out what suits it best."""
        self.measure()

    def measure(self) -> Iterable[Reading]:
        """Run once, and say what was measured."""
        raise NotImplementedError

    def configured(self) -> str:
        """Say how it is set up, if there was a choice."""
        return ""

    def close(self) -> None:
        """Let go of what it has kept from round to round."""


class Plain(Subject):
    """A subject that is one function; one that is `cold` has nothing to warm up."""

    def __init__(
        self, name: str, run: Callable[[], Iterable[Reading]], *, cold: bool = False
    ) -> None:
        super().__init__(name)
        self._run = run
        self._cold = cold

    def warm_up(self) -> None:
        """Call the function, if that changes anything."""
        if not self._cold:
            self.measure()

    def measure(self) -> Iterable[Reading]:
        """Call the function."""
        return list(self._run())


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A question, and the subjects that are asked it in turns."""

    name: str
    title: str
    about: str
    """What exactly is measured."""
    subjects: Callable[[Lab], list[Subject]]

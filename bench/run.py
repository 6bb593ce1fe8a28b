"""Runs measures: in every round each subject once, in turns, after a round that isn't counted.

What is measured while other machines on the same host take much of our processors, or slow them
down, says little about us. It is measured again, a few times, and what was disturbed least counts.
"""

import os
import subprocess
import sys
import time
from collections.abc import Sequence

from bench.figures import Book, Reading
from bench.lab import Lab
from bench.processes import BenchError
from bench.subject import Measure, Subject
from bench.tables import number as written
from bench.weather import Disturbance, Weather
from queuectl.errors import QueuectlError
from tests.servers import ServerError

FAILURES = (
    BenchError,
    QueuectlError,
    ServerError,
    OSError,
    TimeoutError,
    subprocess.SubprocessError,
)
"""What a subject may fail with. The others are measured all the same, and it is told in the end."""
REST = 0.3
"""Seconds between two subjects, so that nothing of the first is still under way."""
TRIES = 3
"""How often a subject is measured in a round while others are much in its way."""


class Runner:
    """Runs measures in a lab, and writes what they find in a book."""

    def __init__(
        self, lab: Lab, book: Book, *, rounds: int | None, weather: Weather | None = None
    ) -> None:
        self._lab = lab
        self._book = book
        self._rounds = rounds
        self._weather = weather or Weather(lab.sizes.patience)

    def run(self, measure: Measure) -> None:
        """Run one measure, all its rounds."""
        rounds = self._rounds or self._lab.sizes.rounds.get(measure.name, 1)
        began = time.monotonic()
        many = "1 round" if rounds == 1 else f"{rounds} rounds"
        say(f"{measure.name}: {measure.title}, {many}")
        subjects = measure.subjects(self._lab)
        try:
            self._run_rounds(measure, subjects, rounds)
        finally:
            for subject in subjects:
                subject.close()
        say(f"{measure.name}: done in {time.monotonic() - began:.0f} s")

    def _run_rounds(self, measure: Measure, subjects: Sequence[Subject], rounds: int) -> None:
        fit = [subject for subject in subjects if self._warm_up(measure, subject)]
        for subject in fit:
            if how := subject.configured():
                self._book.configured[f"{measure.name}: {subject.name}"] = how
        for number in range(1, rounds + 1):
            # Each round begins with another subject, so that nobody always follows the same one.
            turn = (number - 1) % max(1, len(fit))
            for subject in (*fit[turn:], *fit[:turn]):
                if not self._measure(measure, subject, number, rounds):
                    fit = [other for other in fit if other is not subject]

    def _warm_up(self, measure: Measure, subject: Subject) -> bool:
        say(f"{measure.name}, warm-up: {subject.name}")
        try:
            subject.warm_up()
        except FAILURES as error:
            self._miss(measure, subject, error)
            return False
        rest()
        return True

    def _measure(self, measure: Measure, subject: Subject, number: int, rounds: int) -> bool:
        turn = f"{measure.name} {number}/{rounds}: {subject.name}"
        least: Disturbance | None = None
        for left in reversed(range(TRIES)):
            self._weather.begin()
            try:
                readings = list(subject.measure())
            except FAILURES as error:
                self._miss(measure, subject, error)
                return False
            found = self._weather.end()
            say(f"{turn}: {_brief(readings)}")
            rest()
            if least is None or found.sum < least.sum:
                least = found
                self._book.add(number, readings)
            if not found.is_much:
                return True
            say(f"{turn}: {found}{'; again' if left else ''}")
            self._book.disturbed += 1
        return True

    def _miss(self, measure: Measure, subject: Subject, error: BaseException) -> None:
        why = " ".join(str(error).split()) or type(error).__name__
        self._book.missing[f"{measure.name}: {subject.name}"] = why
        say(f"{measure.name}: {subject.name} can't be measured: {why}")


def rest() -> None:
    """Let the disk and the machine come to rest."""
    os.sync()
    time.sleep(REST)


def say(text: str) -> None:
    """Tell how far we are, to whoever waits."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def _brief(readings: Sequence[Reading]) -> str:
    if len(readings) == 1:
        return _value(readings[0])
    return ", ".join(f"{reading.id.partition('/')[2]}: {_value(reading)}" for reading in readings)


def _value(reading: Reading) -> str:
    return f"{written(reading.value)} {reading.unit}"

"""The benchmarks know when others on the same host are in their way, and wait; not for ever."""

import pytest

from bench import weather
from bench.weather import Disturbance, Weather


class Host:
    """A host whose others do what they are told, and whose clock moves when somebody waits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = 0.0
        self.stolen = 0
        self.steals = 0
        """Of a hundred ticks, while we work or wait."""
        self.pace = 1.0
        monkeypatch.setattr(weather, "_ticks", lambda: (self.stolen, int(self.clock * 100)))
        monkeypatch.setattr(weather, "work", self.work)
        monkeypatch.setattr(weather, "monotonic", lambda: self.clock)
        monkeypatch.setattr(weather, "sleep", self.wait)

    def wait(self, seconds: float) -> None:
        self.clock += seconds
        self.stolen += int(seconds * self.steals)
        if self.clock > 10:
            self.steals, self.pace = 0, 1.0

    def work(self) -> float:
        self.wait(1)
        return self.pace


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(monkeypatch)


def test_what_others_take_is_a_share_of_the_time(host: Host) -> None:
    sky = Weather(900)
    sky.begin()
    host.steals = 15
    host.wait(4)
    assert sky.end() == Disturbance(stolen=0.15, slower=0)


@pytest.mark.parametrize(("before", "after"), [(2.0, 1.0), (1.0, 2.0)])
def test_a_slow_processor_is_one_that_was_quicker(
    host: Host, monkeypatch: pytest.MonkeyPatch, before: float, after: float
) -> None:
    monkeypatch.setattr(weather, "CALM_WITHIN", 0.0)
    sky = Weather(900)
    sky.begin()
    host.pace = before
    sky.begin()
    host.pace = after
    assert sky.end() == Disturbance(stolen=0, slower=1)


@pytest.mark.parametrize(("steals", "pace"), [(50, 1.0), (0, 3.0)])
def test_it_is_calm_when_something_is_measured(host: Host, steals: int, pace: float) -> None:
    sky = Weather(900)
    sky.begin()
    assert host.clock == 1
    host.steals, host.pace = steals, pace
    sky.begin()
    assert 10 < host.clock < 15
    assert not sky.end().is_much


def test_nobody_waits_for_ever(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    sky = Weather(900)
    sky.begin()
    monkeypatch.setattr(host, "wait", lambda _: None)

    def more(seconds: float = 1) -> float:
        host.clock += seconds
        return 5.0

    monkeypatch.setattr(weather, "work", more)
    monkeypatch.setattr(weather, "sleep", more)
    waits = []
    for _ in range(60):
        began = host.clock
        sky.begin()
        waits.append(host.clock - began)
    assert max(waits) < weather.CALM_WITHIN * 1.5 + 5
    assert sum(waits) < 900 * 1.5 + len(waits) + 5
    assert waits[-1] == 1


def test_work_takes_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weather, "WORK", 1000)
    assert weather.work() > 0


def test_the_ticks_are_read_as_linux_writes_them() -> None:
    stolen, whole = weather._ticks()
    assert 0 <= stolen < whole

"""How long the rest takes: by the last minutes, and not before anybody can know."""

import pytest

from queuectl.cli.progress import Pace


def test_nobody_knows_before_something_was_done() -> None:
    pace = Pace()
    assert pace.left(0, 100, 0.0) is None
    assert pace.left(0, 100, 50.0) is None
    assert pace.left(10, 100, 60.0) == pytest.approx(540.0)
    assert pace.left(100, 100, 600.0) is None


def test_what_was_done_before_tells_nothing() -> None:
    pace = Pace()
    assert pace.left(900, 1000, 0.0) is None
    assert pace.left(910, 1000, 10.0) == pytest.approx(90.0)


def test_it_is_the_last_minutes_that_count() -> None:
    pace = Pace()
    for minute in range(60):  # for an hour nobody worked
        assert pace.left(0, 1000, 60.0 * minute) is None
    for second in range(0, 1200, 10):
        left = pace.left(second // 10, 1000, 3600.0 + second)
    assert left == pytest.approx((1000 - 119) * 10, rel=0.1)


def test_it_grows_while_nothing_is_done() -> None:
    pace = Pace()
    pace.left(0, 10, 0.0)
    assert pace.left(5, 10, 10.0) == pytest.approx(10.0)
    assert pace.left(5, 10, 60.0) == pytest.approx(60.0)

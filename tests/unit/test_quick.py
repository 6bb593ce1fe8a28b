"""What `make quick` leaves out is there to be left out."""

from pathlib import Path

from tests import quick

TESTS = Path(__file__).parents[1]


def test_what_is_named_exists() -> None:
    assert all((TESTS / name).is_dir() for name in quick.FOLDERS)
    assert [name for name in quick.SLOW if not (TESTS / name).is_file()] == []

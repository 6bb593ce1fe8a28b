"""How jobs are titled for people: parameters follow a command that doesn't show them."""

import pytest

from queuectl.titles import LONGEST_OWN, own_told, with_own


@pytest.mark.parametrize(
    ("command", "own", "told"),
    [
        ("train --lr 1", {"index": 3, "lr": "1", "seed": "3"}, "seed=3"),
        # What stands there once is seen as one of them, by its name if that is there.
        ("train --lr 1", {"index": 1, "seed": "1", "lr": "1"}, "seed=1"),
        ("train 1 1", {"seed": "1", "lr": "1"}, ""),
        ('train 1 "$seed"', {"seed": "1"}, "seed=1"),
        ("train 1 ${seed}", {"seed": "1"}, "seed=1"),
        # A part of a word or a number is none of it.
        ("train 10.1 x1 1.5", {"lr": "1"}, "lr=1"),
        ("train 0.5", {"lr": "5"}, "lr=5"),
        ("convert page-3.tif", {"index": 3}, ""),
        ("make part", {"index": 3}, "index=3"),
        ("echo 1 $QUEUECTL_INDEX", {"index": 1}, "index=1"),
        # A line is what tells its jobs apart, in quotes or not.
        ("wc -l 'a b.txt'", {"index": 1, "line": "a b.txt"}, ""),
        ("wc -l it'\"'\"'s", {"index": 1, "line": "it's"}, "line=it's"),
        ("wc -l 'it'\"'\"'s'", {"index": 1, "line": "it's"}, ""),
        ('wc "$QUEUECTL_LINE"', {"index": 1, "line": "a\udcff", "line_name": "a"}, r"line=a\xff"),
        ("true", {"seed": ""}, "seed="),
        ("true", {"name": "parse", "seed": "3"}, "name=parse, seed=3"),
        ("./parse.sh", {"name": "parse"}, ""),
        ("true", {"name": "job1"}, ""),
    ],
)
def test_what_the_command_does_not_show(command: str, own: dict[str, str | int], told: str) -> None:
    assert own_told(command, own, "job1") == told


def test_it_is_cut() -> None:
    told = own_told("true", {f"n{at}": "x" * 99 for at in range(9)}, "job1")
    assert told.startswith(f"n0={'x' * 37}..., n1=xxx")
    assert len(told) == LONGEST_OWN


def test_the_command_gives_way_first() -> None:
    assert with_own("python train.py", "") == "python train.py"
    assert with_own("python train.py", "seed=3") == "python train.py [seed=3]"
    assert with_own("python train.py", "seed=3", 24) == "python train.py [seed=3]"
    assert with_own("python train.py", "seed=3", 23) == "python trai... [seed=3]"
    # Of a command that says nothing else, something is left.
    assert with_own("python train.py", "x" * 40, 30) == f"python... [{'x' * 40}]"

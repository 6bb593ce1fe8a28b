"""Expansions: which elements there are, what each has to itself, and what can't be."""

import json
import re
import tracemalloc
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuectl.errors import BadJobError, UsageError
from queuectl.expansion import MOST, Expansion, expand, parse_array, parse_sweep


def commands(expansion: Expansion) -> list[str | None]:
    return [own[0] for own in expansion.own()]


def kept(expansion: Expansion) -> list[dict[str, object]]:
    return [json.loads(own[2]) for own in expansion.own()]


# -- arrays -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "numbers", "at_once"),
    [
        ("1-4", [1, 2, 3, 4], None),
        ("1,3,7-9", [1, 3, 7, 8, 9], None),
        ("0-20:5", [0, 5, 10, 15, 20], None),
        ("1-100:40,7%4", [1, 41, 81, 7], 4),
        (" 5 ", [5], None),
        ("1-9:2,2-9:2", [1, 3, 5, 7, 9, 2, 4, 6, 8], None),
    ],
)
def test_an_array_is_of_numbers_and_ranges(
    text: str, numbers: list[int], at_once: int | None
) -> None:
    array = parse_array(text)
    assert [number for numbers in array.ranges for number in numbers] == numbers
    assert (array.size, array.at_once) == (len(numbers), at_once)
    assert parse_array(str(array)).ranges == array.ranges


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "An array is of numbers and ranges"),
        ("1-", "An array is of numbers and ranges"),
        ("-1", "An array is of numbers and ranges"),
        ("a", "An array is of numbers and ranges"),
        ("²", "An array is of numbers and ranges"),
        ("9-1", "must go up"),
        ("1-9:0", "must go up"),
        ("3:2", "must go up"),
        ("1-9%", "How many run at once is a number from 1"),
        ("1-9%0", "How many run at once is a number from 1"),
        ("1-9%4%4", "How many run at once is a number from 1"),
        ("1-5,3", "The number 3 is in that array twice"),
        ("1-100:3,50-60,10-20:10", "The number 10 is in that array twice"),
        ("1-99999999", "one request makes at most 10,000,000"),
        ("1-99999999999999999999999", "An array is of numbers and ranges"),
        ("1-9999999999999999999:9999999", "must go up"),
        (",".join(map(str, range(10_001))), "at most 10,000 numbers and ranges"),
        ("01-03", "have no zeros in front, as '01-03' has; leave them out, and"),
        ("1,007", "have no zeros in front"),
    ],
)
def test_what_is_no_array_is_told(text: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        parse_array(text)


@given(numbers=st.lists(st.tuples(*[st.integers(0, 40)] * 2, st.integers(1, 9)), max_size=6))
def test_a_number_comes_twice_or_it_does_not(numbers: list[tuple[int, int, int]]) -> None:
    ranges = [range(low, low + more + 1, step) for low, more, step in numbers] or [range(1)]
    text = ",".join(f"{one[0]}-{one.stop - 1}:{one.step}" for one in ranges)
    every = [number for one in ranges for number in one]
    if len(every) == len(set(every)):
        assert [number for one in parse_array(text).ranges for number in one] == every
    else:
        with pytest.raises(UsageError, match="twice"):
            parse_array(text)


def test_elements_of_an_array_have_their_numbers() -> None:
    expansion = expand("convert page-{}.png --tag $QUEUECTL_INDEX", array="7,9")
    assert (expansion.count, dict(expansion.shared)) == (2, {})
    assert [*expansion.own()] == [
        ("convert page-7.png --tag $QUEUECTL_INDEX", None, '{"index": 7}'),
        ("convert page-9.png --tag $QUEUECTL_INDEX", None, '{"index": 9}'),
    ]
    assert commands(expand("train", array=range(3))) == ["train"] * 3
    assert [*expand(["show", "-n{}"], array="4")] == [
        {"argv": ["show", "-n4"], "parameters": {"index": 4}}
    ]


def test_a_huge_array_is_made_as_it_is_asked_for() -> None:
    tracemalloc.start()
    try:
        expansion = expand("true", array=f"1-{MOST}")
        assert [own[2] for own in islice(expansion.own(), 2)] == [
            '{"index": 1}',
            '{"index": 2}',
        ]
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()
    assert expansion.count == MOST


# -- sweeps -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name", "values"),
    [
        ("lr=0.1,0.01", "lr", ["0.1", "0.01"]),
        ("seed=1..5", "seed", range(1, 6)),
        ("n=10..100..30", "n", range(10, 101, 30)),
        ("n=3..1", "n", range(3, 0, -1)),
        ("n=-1..1,9", "n", [-1, 0, 1, "9"]),
        ("opt=,--fast", "opt", ["", "--fast"]),
        ("path=a..b,../x", "path", ["a..b", "../x"]),
        ("eq=a=b", "eq", ["a=b"]),
    ],
)
def test_a_sweep_is_a_name_and_its_values(text: str, name: str, values: list[str]) -> None:
    found, swept = parse_sweep(text)
    assert (found, [*swept]) == (name, [*values])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("lr=", "lr= sweeps over no value"),
        ("lr=0.1..0.5..0.1", "lr=0.1..0.5..0.1 isn't a span"),
        ("lr=1..3..0.5", "list others: 0.1,0.2,0.3"),
        ("lr=0..1e3", "of whole numbers"),
        ("a=01..03", "a=01..03 has zeros in front, which its numbers wouldn't have; leave them"),
        ("a=-01..3", "has zeros in front"),
    ],
)
def test_what_is_meant_as_a_span_is_one(text: str, told: str) -> None:
    with pytest.raises(UsageError, match=re.escape(told)):
        parse_sweep(text)


def test_a_sweep_makes_all_combinations() -> None:
    expansion = expand(
        {"command": "train --lr {lr} {seed}", "tags": ["sweep"]},
        sweep={"lr": ["0.1", "a b"], "seed": range(1, 3)},
    )
    assert (expansion.count, dict(expansion.shared)) == (4, {"tags": ["sweep"]})
    assert [*expansion] == [
        {
            "tags": ["sweep"],
            "command": f"train --lr {word} {seed}",
            "parameters": {"index": index, "lr": lr, "seed": seed},
        }
        for index, lr, word, seed in (
            (1, "0.1", "0.1", "1"),
            (2, "0.1", "0.1", "2"),
            (3, "a b", "'a b'", "1"),
            (4, "a b", "'a b'", "2"),
        )
    ]


@pytest.mark.parametrize(
    ("sweep", "told"),
    [
        ({"1x": ["1"]}, "can't be the name of a parameter"),
        ({"a-b": ["1"]}, "can't be the name of a parameter"),
        ({"ä": ["1"]}, "can't be the name of a parameter"),
        ({"QUEUECTL_X": ["1"]}, "is set by queuectl only"),
        ({"index": ["1"]}, "stands for the number of an element"),
        ({"line": ["1"]}, "stands for the line"),
        ({"a": ["1", "2", "1"]}, "sweeps over '1' twice"),
        ({"a": []}, "sweeps over no value"),
        ({"a": "text"}, "sweeps over several values"),
        ({"a": ["x\0y"]}, "NUL"),
        ({"a": ["x" * 2**17]}, "at most"),
        ({"a": [object()]}, "something of JSON, not object"),
        ({"a": [float("nan")]}, "something of JSON, not float"),
        ({"a": range(10_000), "b": range(10_000)}, "makes 100,000,000 jobs"),
        ({"a": count()}, "more than 1,000,000 values"),
    ],
)
def test_what_cannot_be_swept_over_is_told(sweep: dict[str, list[object]], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        expand("true", sweep=sweep)


# -- lines and objects --------------------------------------------------------------------


def test_a_line_is_appended_where_it_has_no_place() -> None:
    assert commands(expand("wc -l", lines=["a b"])) == ["wc -l 'a b'"]
    assert commands(expand("wc {}.x", lines=["a b"])) == ["wc 'a b'.x"]
    assert commands(expand("echo {#}", lines=["a", "b"])) == ["echo 1", "echo 2"]
    by_variable = 'echo "$QUEUECTL_LINE"'
    assert commands(expand(by_variable, lines=["a"])) == [by_variable]
    programs = [own[1] for own in expand(["wc", "-l"], lines=["a b", Path("c")]).own()]
    assert programs == [("wc", "-l", "a b"), ("wc", "-l", "c")]


def test_a_line_that_is_no_text_comes_by_variables() -> None:
    assert [*expand("cat {} > {/.}", lines=["ok", b"d/\xff.c"]).own()] == [
        ("cat ok > ok", None, '{"index": 1, "line": "ok"}'),
        (
            'cat "${QUEUECTL_LINE}" > "${QUEUECTL_LINE_NAME_STEM}"',
            None,
            '{"index": 2, "line": "d/\\udcff.c", "line_name_stem": "\\udcff"}',
        ),
    ]
    (own,) = expand(["cat", "--", "{}"], lines=[b"\xff"]).own()
    assert own[1] == ("/bin/sh", "-c", 'exec cat -- "${QUEUECTL_LINE}"')
    (own,) = expand(["{}"], lines=[b"-\xff"]).own()
    assert own[1] == ("/bin/sh", "-c", '"${QUEUECTL_LINE}"')


def test_lines_and_objects_go_with_sweeps() -> None:
    expansion = expand("run {seed} {line}", lines=["a", "b"], sweep={"seed": range(2)})
    assert kept(expansion) == [
        {"index": index, "line": line, "seed": seed}
        for index, (line, seed) in enumerate(
            [("a", "0"), ("a", "1"), ("b", "0"), ("b", "1")], start=1
        )
    ]
    assert commands(
        expand("r {x} {s}", each=[{"x": 1}], sweep={"s": "ab"[::1].split("b")[:1]})
    ) == ["r 1 a"]


def test_values_of_objects_are_what_json_writes() -> None:
    items = [{"a": "x y", "b": 1.50, "c": True, "d": None, "e": ["ä", {"f": 1}], "g": b"\xff"}]
    assert kept(expand("run {a} {e}", each=items)) == [
        {
            "index": 1,
            "a": "x y",
            "b": "1.5",
            "c": "true",
            "d": "null",
            "e": '["ä",{"f":1}]',
            "g": "\udcff",
        }
    ]


@pytest.mark.parametrize(
    ("items", "told"),
    [
        ([{"a": 1}, {"b": 1}], "Object 2: it has no 'a', for which the command has a place"),
        ([{"a": 1}, 7], "Object 2: it must be an object of names and values, not '7'"),
        ([{"a": 1}, {"a": 1, "b-c": 1}], "Object 2: 'b-c' can't be the name"),
        ([{"a": 1}, {"a": 1, "index": 1}], "Object 2: index stands for"),
        ([{"a": 1}, {"a": "\0"}], "Object 2: The parameter a has a NUL byte"),
        ([{"a": "\ud800"}], "Object 1: The parameter a isn't valid text"),
        ([{"a": 1} | {f"b{n}": 1 for n in range(64)}], "Object 1: it has more than 64 values"),
        ([{"a": 1} | {f"b{n}": "x" * 2**16 for n in range(9)}], "at most 524,288 bytes together"),
    ],
)
def test_what_is_wrong_with_an_object_is_told(items: list[object], told: str) -> None:
    with pytest.raises(BadJobError, match=told):
        [*expand("run {a}", each=items).own()]  # type: ignore[arg-type]


def test_an_empty_line_is_no_element() -> None:
    assert commands(expand("run {} {#}", lines=["a", "", b"", " ", "b"])) == [
        "run a 1",
        "run ' ' 2",
        "run b 3",
    ]
    with pytest.raises(BadJobError, match=r"^Line 3: "):
        commands(expand("run", lines=["", "a", "\0"]))


def test_no_lines_and_no_objects_make_no_jobs() -> None:
    assert commands(expand("run {}", lines=[])) == []
    assert commands(expand("run {a}", each=[])) == []


def test_a_line_that_is_too_long_is_told() -> None:
    with pytest.raises(BadJobError, match=r"^Line 2: The parameter line is 131,072 bytes long"):
        commands(expand("run", lines=["a", "x" * 2**17]))
    long = ["'" * 100_000] * 4
    with pytest.raises(BadJobError, match=r"^Line 1: command is \d,\d+,\d+ bytes long"):
        commands(expand("run {} {} {}", lines=long))


# -- together -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "Say of what elements are made"),
        ({"array": "1", "lines": ["a"]}, "either of an array or of lines"),
        ({"lines": ["a"], "each": [{}]}, "either of lines or of objects"),
        ({"array": "1", "sweep": {"a": "bc"}}, "sweep over a name in place of the array"),
        ({"lines": "text"}, "Lines are several"),
        ({"each": {"a": 1}}, "Objects are several"),
        ({"array": "1-9%4", "at_once": 2}, "said twice"),
        ({"array": "1-9", "at_once": 0}, "How many run at once"),
        ({"array": range(-1, 3)}, "numbers from 0"),
        ({"array": range(0)}, "numbers from 0"),
    ],
)
def test_what_makes_no_sense_together_is_told(given: dict[str, object], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        expand("true", **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ({"command": "true", "id": "x"}, "An id is for a single job"),
        ({"command": "true", "unique": "x"}, "One job at a time has a unique key"),
        ({"command": "true", "parameters": {"a": "b"}}, "has parameters of its own"),
        ({"data": "x"}, "not data"),
        ({"command": "true", "nope": 1}, "nope"),
        ({"command": "f {}", "shell": "fish"}, "Values can't be quoted for fish"),
        ({"command": "true {x}"}, "Nothing called 'x'"),
        (" ", "command is empty"),
    ],
)
def test_what_cannot_be_expanded_is_told(what: object, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        expand(what, array="1-2")  # type: ignore[arg-type]


def test_another_shell_reads_what_has_no_values_in_it() -> None:
    assert commands(expand({"command": "f", "shell": "fish"}, array="1")) == ["f"]
    assert commands(expand({"command": "f {}", "shell": "/bin/bash"}, array="1")) == ["f 1"]


def test_how_many_run_at_once_is_shared() -> None:
    first, second = (expand("true", array="1-9%4").shared["at_once"] for _ in range(2))
    assert first.startswith("4 ")
    assert first != second
    assert expand("true", lines=[], at_once=2, name="nightly").shared["at_once"] == "2 nightly"
    assert expand("true", array="1").shared == {}


def test_parts_are_made_when_they_are_asked_for() -> None:
    def endless() -> Iterator[str]:
        yield from map(str, count())

    expansion = expand("echo {}", lines=endless())
    expansion.skip(2)
    part = expansion.part(3)
    assert (part.count, commands(part)) == (3, ["echo 2", "echo 3", "echo 4"])
    assert commands(expansion.part(1)) == ["echo 5"]

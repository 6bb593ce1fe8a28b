"""Parameters of jobs: they come back as they were, whatever bytes they stand for."""

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuectl import parameters
from queuectl.enqueueing import Defaults
from queuectl.errors import BadJobError
from queuectl.request import read_request, read_values
from queuectl.settings import Settings

names = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True)
texts = st.binary(max_size=20).map(lambda data: parameters.as_text(data.replace(b"\0", b"")))
some = st.dictionaries(names, texts | st.just("plain"), max_size=4)


@given(found=some)
def test_what_is_written_is_read_again(found: dict[str, str]) -> None:
    text = parameters.write({"index": 7, **found})
    text.encode()
    assert json.loads(text) == parameters.read(text) == {"index": 7, **found}


@given(found=some, other=texts)
def test_one_is_found_in_the_text_of_all(found: dict[str, str], other: str) -> None:
    text = parameters.write(found)
    for name in found:
        assert parameters.written(name, found[name]) in text
        assert (parameters.written(name, other) in text) == (found[name] == other)


def test_variables_carry_the_bytes() -> None:
    found = parameters.variables(
        {"index": 7, "line": "ä\udcff\n", "line_name_stem": "x", "lr": "0.1", "line_x": "y"}
    )
    assert found == {
        b"QUEUECTL_INDEX": b"7",
        b"QUEUECTL_LINE": b"\xc3\xa4\xff\n",
        b"QUEUECTL_LINE_NAME_STEM": b"x",
        b"lr": b"0.1",
        b"line_x": b"y",
    }


@given(data=st.binary())
def test_all_bytes_have_a_text(data: bytes) -> None:
    assert parameters.as_bytes(parameters.as_text(data)) == data
    assert os.fsencode(parameters.as_text(data)) == data


def test_what_a_stranger_wrote_is_read_as_far_as_it_goes() -> None:
    assert parameters.read('{"a": 1, "b": 2.5, "c": true, "d": null}') == {
        "a": 1,
        "b": "2.5",
        "c": "True",
        "d": "None",
    }
    assert parameters.read("[1]") == {}


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ([], "parameters must map names to texts"),
        ({"a": 1}, "must be text, not int"),
        ({"index": True}, "must be text, not bool"),
        ({"a b": "x"}, "can't be the name of a parameter"),
        ({"a" * 129: "x"}, "at most"),
        ({"QUEUECTL_A": "x"}, "is set by queuectl only"),
        ({"a": "\0"}, "NUL"),
        ({"a": "\ud800"}, "isn't valid text"),
        ({f"a{n}": "" for n in range(65)}, "at most 64 parameters"),
    ],
)
def test_what_cannot_be_kept_is_told(value: object, told: str) -> None:
    with pytest.raises(BadJobError, match=told):
        parameters.check_all("parameters", value)


def test_a_request_may_have_some() -> None:
    asked = {"command": "x", "parameters": {"lr": "0.1", "index": 3}, "at_once": "4 a b"}
    new = read_request(asked, now=0)
    assert (new.parameters, new.at_once) == ({"lr": "0.1", "index": 3}, "4 a b")
    complete = Defaults(Settings()).complete(read_values({**asked, "keys": ["k"]}, now=0))
    assert complete.keys == ("k", "%4 a b")
    assert Defaults(Settings()).complete(read_values({"command": "x"}, now=0)).keys == ()


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("at_once", "4", "at_once must be a number and a name, such as '4 nightly'"),
        ("at_once", 4, "at_once must be a number and a name"),
        ("at_once", "x y", "at_once must be a number and a name"),
        ("at_once", "0 y", "at_once must be from 1 to"),
        ("at_once", "4  y", "at_once must be printable, without spaces around it"),
        ("at_once", "4 " + "y" * 200, "at_once has 200 characters; at most"),
        ("keys", ["%4 a"], "A key can't begin with %"),
        ("parameters", {"a b": "c"}, "can't be the name of a parameter"),
    ],
)
def test_what_cannot_be_asked_for_is_told(field: str, value: object, told: str) -> None:
    with pytest.raises(BadJobError, match=told) as caught:
        read_request({"command": "x", field: value}, now=0)
    assert caught.value.field == field


def test_what_can_be_kept_is_kept() -> None:
    given = {"index": 7, "line": "\udcff", "a": ""}
    assert parameters.check_all("parameters", given) == given


def test_odd_bytes_are_written_for_people() -> None:
    assert parameters.legible("caf\udce9 ä") == "caf\\xe9 ä"
    assert parameters.legible(7) == "7"

"""W3C Trace Context: what is right is read as it is, and whatever else there is, is nothing."""

import re
import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from queuectl.tracecontext import (
    LONGEST_STATE,
    MOST_MEMBERS,
    VARIABLES,
    SpanId,
    Trace,
    read_parent,
    read_state,
    read_trace,
    trace_of,
)

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"
STRICT = re.compile("[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")

hexes = st.integers(1, 2**128 - 1).map("{:032x}".format)
spans = st.integers(1, 2**64 - 1).map("{:016x}".format)
keys = st.text(string.ascii_lowercase + string.digits + "_-*/@", min_size=1, max_size=20).filter(
    lambda key: key[0].isalnum()
)
VALUE_LETTERS = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) not in ",=")
values = st.text(VALUE_LETTERS, min_size=1, max_size=20).filter(lambda v: v[-1] != " ")
states = st.dictionaries(keys, values, min_size=1, max_size=8).map(
    lambda members: ",".join(f"{key}={value}" for key, value in members.items())
)


class TestParent:
    def test_one_is_read(self) -> None:
        assert read_parent(PARENT) == SpanId(TRACE, SPAN, 1)

    @given(hexes, spans, st.integers(0, 3))
    def test_what_is_right_comes_back(self, trace: str, span: str, flags: int) -> None:
        written = str(SpanId(trace, span, flags))
        assert read_parent(written) == SpanId(trace, span, flags)
        assert str(read_parent(written)) == written

    @given(st.text() | st.from_regex(STRICT, fullmatch=True))
    @example(PARENT.upper())
    @example(PARENT + "\n")
    @example(" " + PARENT)
    @example(PARENT + "-")
    @example(PARENT + "-more")
    @example(PARENT[:-1])
    @example(f"ff-{TRACE}-{SPAN}-01")
    @example(f"00-{'0' * 32}-{SPAN}-01")
    @example(f"00-{TRACE}-{'0' * 16}-01")
    @example(PARENT.replace("4", "\u0664"))
    def test_what_is_read_is_right(self, text: str) -> None:
        found = read_parent(text)
        if found is not None:
            assert STRICT.fullmatch(text)
            assert text[:2] != "ff" and (text[:2] != "00" or len(text) == 55)
            assert text[3:52] == f"{found.trace}-{found.span}"
            assert found.trace.strip("0") and found.span.strip("0")

    @pytest.mark.parametrize(
        "text",
        [
            "",
            PARENT.upper(),
            PARENT + "\n",
            " " + PARENT,
            PARENT + "-",
            PARENT[:-1],
            f"ff-{TRACE}-{SPAN}-01",
            f"00-{'0' * 32}-{SPAN}-01",
            f"00-{TRACE}-{'0' * 16}-01",
        ],
    )
    def test_what_is_wrong_is_nothing(self, text: str) -> None:
        assert read_parent(text) is None

    def test_of_a_later_version_the_known_part_is_read(self) -> None:
        assert read_parent(f"01-{TRACE}-{SPAN}-ff-more-of-it") == SpanId(TRACE, SPAN, 1)

    def test_reserved_flags_are_not_passed_on(self) -> None:
        assert read_parent(f"00-{TRACE}-{SPAN}-fe") == SpanId(TRACE, SPAN, 2)


class TestState:
    @given(states)
    def test_what_is_right_comes_back(self, state: str) -> None:
        assert read_state(state) == state

    def test_what_is_between_the_members_is_left_out(self) -> None:
        assert read_state(" a=1 ,\t, b@c=x y\t,") == "a=1,b@c=x y"

    @pytest.mark.parametrize(
        "text",
        [
            "",
            " , ",
            "a",
            "=1",
            "a=",
            "A=1",
            "a=1,a=2",
            "a=1,b",
            "a=\u00fc",
            "a=1=2",
            "a=\n",
            ",".join(f"k{n}={n}" for n in range(MOST_MEMBERS + 1)),
            "a=" + "x" * LONGEST_STATE,
        ],
    )
    def test_what_is_wrong_is_nothing(self, text: str) -> None:
        assert read_state(text) is None

    @given(st.text())
    def test_what_is_read_says_something_short(self, text: str) -> None:
        found = read_state(text)
        assert found is None or (0 < len(found) <= LONGEST_STATE and found.isascii())


class TestTrace:
    def test_a_wrong_state_is_left_out(self) -> None:
        assert read_trace(PARENT, "A=1") == Trace(SpanId(TRACE, SPAN, 1))
        assert read_trace(PARENT, "a=1") == Trace(SpanId(TRACE, SPAN, 1), "a=1")

    def test_a_state_alone_is_nothing(self) -> None:
        assert read_trace(None, "a=1") is None
        assert read_trace("00-", "a=1") is None

    def test_it_is_found_in_an_environment_and_named_as_there(self) -> None:
        environment = {"TRACEPARENT": PARENT, "TRACESTATE": "a=1", "OTHER": "x"}
        trace = trace_of(environment)
        assert trace is not None
        assert trace.named(VARIABLES) == {"TRACEPARENT": PARENT, "TRACESTATE": "a=1"}
        assert trace.named() == {"traceparent": PARENT, "tracestate": "a=1"}
        assert trace_of({"TRACEPARENT": PARENT}) == Trace(SpanId(TRACE, SPAN, 1))
        assert trace_of({"TRACESTATE": "a=1"}) is None

"""What the output of jobs may do to a terminal, judged by what an emulated one then shows."""

import itertools
import os
import pty
from collections.abc import Iterator
from typing import TextIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuectl.cli.controls import RESET, Controls, settled
from tests.cli.screen import screen_of

BAR = "  0%|    | 0/3\r 33%|#   | 1/3\r100%|####| 3/3"
HARMFUL = [
    "\x1b]0;title\x07",
    "\x1b[2J",
    "\x1b[H",
    "\x1b[5;5H",
    "\x1b[1B",
    "\x1b[3C",
    "\x1b[6n",
    "\x1b[?1049h",
    "\x1b[>4;1m",
    "\x1b[<1m",
    "\x1b[1 m",
    "\x1b[38;5" + ";1" * 40 + "m",
    "\x1b[3K",
    "\x1bc",
    "\x1b(0",
    "\x9b31m",
    "\x07",
    "\x0e",
    "\u202e",
]
PIECES = st.lists(
    st.sampled_from(
        [
            *"abxyz \r\b\t\n",
            "\x1b",
            "[",
            "3",
            "m",
            "K",
            "\x1b[31m",
            "\x1b[0m",
            "\x1b[K",
            "\x1b[A",
            "\x1b[2A",
            "\x1b(B",
            *HARMFUL,
        ]
    ),
    max_size=30,
).map("".join)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[TextIO]:
    """A stream that is a terminal, as the environment of a person has it."""
    for name in ("NO_COLOR", "QUEUECTL_COLOR", "COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    master, slave = pty.openpty()
    with os.fdopen(slave, "w") as stream:
        yield stream
    os.close(master)


def test_a_progress_bar_is_shown_as_it_is_meant(terminal: TextIO) -> None:
    shown = Controls(terminal).show(f"begin\n{BAR}\nend\n")
    assert screen_of(shown) == ["begin", "100%|####| 3/3", "end"]
    spinner = Controls(terminal).show("work |\b/\b-\b\\\bdone\n")
    assert screen_of(spinner) == ["work done"]


def test_the_rest_of_a_longer_line_is_erased(terminal: TextIO) -> None:
    assert screen_of(Controls(terminal).show("downloading\r\x1b[Kdone\n")) == ["done"]


def test_several_bars_move_within_what_they_wrote(terminal: TextIO) -> None:
    # As tqdm does it: down to the second bar, and up again.
    text = "".join(f"\router {n}\n\rinner {n}\x1b[A" for n in range(9))
    shown = Controls(terminal).show(f"start\n{text}\n\n")
    assert screen_of(shown) == ["start", "outer 8", "inner 8"]


def test_nothing_moves_above_where_the_output_began(terminal: TextIO) -> None:
    controls = Controls(terminal)
    assert controls.show("one\ntwo\x1b[2Aspoofed") == "one\ntwo\\x1b[2Aspoofed"
    assert controls.show("\x1b[A") == "\x1b[A"
    assert controls.show("\x1b[A") == "\\x1b[A"
    assert controls.show("\n" * 200 + "\x1b[150A").endswith("\\x1b[150A"), "higher than a screen"


def test_the_end_is_below_all_and_without_colours(terminal: TextIO) -> None:
    controls = Controls(terminal)
    shown = controls.show("\x1b[31mouter\ninner\x1b[A")
    assert screen_of(f"{shown}{controls.end()}$") == ["outer", "inner", "$"]
    assert controls.show("\x1b[A") == "\\x1b[A", "what was written before is out of reach"
    controls = Controls(terminal)
    assert controls.show("\x1b[1;31mred") + controls.end() == f"\x1b[1;31mred{RESET}\n"
    assert controls.show("\x1b[31mred\x1b[0m\n") + controls.end() == "\x1b[31mred\x1b[0m\n"
    assert controls.show("red\n\x1b[m") + controls.end() == "red\n\x1b[m", "no empty line"


def test_a_pause_makes_room_for_others(terminal: TextIO) -> None:
    controls = Controls(terminal)
    assert controls.show("\x1b[31m10%") + controls.pause() == f"\x1b[31m10%{RESET}\n"
    assert controls.pause() == ""
    assert controls.show("") == ""
    assert controls.show("\r20%") == "\x1b[31m\r20%", "in the same colour"
    assert controls.pause() + controls.end() == f"{RESET}\n"
    assert controls.show("plain\n") + controls.pause() == "plain\n"


@pytest.mark.parametrize("control", HARMFUL, ids=ascii)
def test_all_other_controls_are_shown(terminal: TextIO, control: str) -> None:
    controls = Controls(terminal)
    shown = controls.show(f"a{control}b") + controls.show("", last=True)
    assert all(character.isprintable() for character in shown), ascii(shown)
    assert shown.startswith("a\\")
    assert shown.endswith("b")


@pytest.mark.parametrize("control", ["\x1b(B", "\x0f", "\x1b[?25l", "\x1b[?25h"], ids=ascii)
def test_what_changes_nothing_is_left_out(terminal: TextIO, control: str) -> None:
    assert Controls(terminal).show(f"a{control}b") == "ab"


@pytest.mark.parametrize(
    ("name", "value"), [("NO_COLOR", "1"), ("QUEUECTL_COLOR", "never"), ("TERM", "dumb")]
)
def test_colours_are_left_out_where_they_are_not_wanted(
    terminal: TextIO, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    controls = Controls(terminal)
    shown = controls.show("\x1b[32mPASS\x1b[0m 10%\r20%\x1b[K") + controls.end()
    assert shown == ("PASS 10%\r20%\n" if name == "TERM" else "PASS 10%\r20%\x1b[K\n")


def test_a_lone_escape_at_the_end_is_shown(terminal: TextIO) -> None:
    controls = Controls(terminal)
    assert controls.show("a\x1b") == "a"
    assert controls.show("", last=True) == "\\x1b"
    assert controls.show("\x1b[3") == ""
    assert controls.show("2mgreen") == "\x1b[32mgreen"
    assert len(controls.show("\x1b[" + "1" * 1000)) > 900, "what is held back is bounded"


@given(text=PIECES, cuts=st.lists(st.integers(0, 100), max_size=5))
def test_it_does_not_matter_where_a_read_ends(text: str, cuts: list[int]) -> None:
    with open(os.devnull, "w") as stream:
        whole, cut = Controls(stream), Controls(stream)
        at = sorted({0, len(text), *(c for c in cuts if c < len(text))})
        pieces = [text[a:b] for a, b in itertools.pairwise(at)]
        parts = "".join(map(cut.show, pieces)) + cut.end()
        assert parts == whole.show(text) + whole.end()


@given(text=PIECES)
def test_nothing_else_reaches_the_terminal(text: str) -> None:
    with open(os.devnull, "w") as stream:
        controls = Controls(stream)
        shown = controls.show(text) + controls.end()
    for harmless in ("\x1b[K", "\x1b[A", "\x1b[2A", *"\r\b\t\n"):
        shown = shown.replace(harmless, "")
    assert shown.isprintable()


# -- whole lines ----------------------------------------------------------------------------


def test_a_line_that_overwrites_itself_is_shown_as_it_ends() -> None:
    assert settled(BAR) == "100%|####| 3/3"
    assert settled("plain\ttext") == "plain\ttext"
    assert settled("\x1b[32m 50%\r100%\x1b[0m\r") == "\x1b[32m100%\x1b[0m"
    assert settled("100%\rok") == "ok0%"
    assert settled("日本\r語") == "語本"


@given(text=PIECES.map(lambda text: text.replace("\n", "")))
def test_what_a_line_comes_to_is_what_a_terminal_shows(text: str) -> None:
    with open(os.devnull, "w") as stream:
        whole = Controls(stream).show(text.replace("\x1b[A", "").replace("\x1b[2A", ""), last=True)
        line = Controls(stream).line(settled(text))
    assert screen_of(line, columns=400) == screen_of(whole, columns=400)


def test_a_colour_goes_on_in_the_next_line(terminal: TextIO) -> None:
    controls = Controls(terminal)
    assert controls.line("\x1b[31mred") == f"\x1b[31mred{RESET}"
    assert controls.line("still") == f"\x1b[31mstill{RESET}"
    assert controls.line("\x1b[1mbold\x1b[0m no more") == "\x1b[31m\x1b[1mbold\x1b[0m no more"
    assert controls.line("plain") == "plain"
    assert len(controls.line("\x1b[1m" * 10_000)) < 60_000
    assert len(controls.line("")) < 400, "what is carried over is bounded"

"""Placeholders: what they stand for, that a shell reads each value as one word, and where not."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from queuectl.errors import BadJobError
from queuectl.parameters import as_text, variables
from queuectl.placeholders import (
    FORMS,
    argv_template,
    folder,
    name,
    quoted,
    shell_template,
    stem,
)

LINE = ("index", "line")
SHOW = Path(__file__).with_name("show_argv.py")
SHELLS = [shell for shell in ("sh", "bash", "dash", "zsh") if shutil.which(shell)]
file_names = st.binary(min_size=1, max_size=40).map(lambda data: data.replace(b"\0", b"\n"))


def words(command: str, env: Mapping[bytes, bytes], shell: str = "sh") -> list[bytes]:
    """Return what a program is called with by a command of a shell, in which it is `SHOW`."""
    run = subprocess.run(
        [shell, "-c", command.replace("SHOW", f"{sys.executable} -S {SHOW}")],
        env={**os.environb, **env},
        capture_output=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.split(b"\0")[:-1]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a/b.tar.gz", ["a/b.tar", "b.tar.gz", "a", "b.tar"]),
        ("b.c", ["b", "b.c", ".", "b"]),
        ("a.d/b", ["a.d/b", "b", "a.d", "b"]),
        ("/b.c", ["/b", "b.c", "/", "b"]),
        ("a//b.c", ["a//b", "b.c", "a", "b"]),
        ("a/b/", ["a/b/", "", "a", ""]),
        ("/", ["/", "", "/", ""]),
        (".profile", ["", ".profile", ".", ""]),
        ("a\nb.c/d\n.e", ["a\nb.c/d\n", "d\n.e", "a\nb.c", "d\n"]),
        ("-rf", ["-rf", "-rf", ".", "-rf"]),
    ],
)
def test_forms_of_a_path(path: str, expected: list[str]) -> None:
    assert [stem(path), name(path), folder(path), stem(name(path))] == expected
    template = argv_template("{} {.} {/} {//} {/.} {#}", LINE)
    stem_, name_, folder_, both = expected
    filled = template.plain({"index": 7, "line": path})
    assert filled == f"{path} {stem_} {name_} {folder_} {both} 7"


@given(path=st.text(alphabet="a/.", min_size=1, max_size=12))
def test_folders_are_those_of_dirname(path: str) -> None:
    run = subprocess.run(["dirname", "--", path], capture_output=True, text=True, check=True)
    assert folder(path) == run.stdout[:-1]


@pytest.mark.parametrize("shell", SHELLS)
@settings(max_examples=25, deadline=None)
@given(data=file_names)
def test_every_form_of_a_name_is_one_word_with_its_bytes(shell: str, data: bytes) -> None:
    line = as_text(data)
    template = shell_template("SHOW {} {.} {/} {//} {/.} x{}y {#}", LINE)
    element: dict[str, str | int] = {"index": 3, "line": line}
    command, more = template.shell(element)
    command.encode()
    expected = [
        line if form.make is None else form.make(line)
        for form in (FORMS[inner] for inner in ("", ".", "/", "//", "/."))
    ]
    seen = words(command, variables({**element, **more}), shell)
    assert seen == [
        *(os.fsencode(text) for text in expected),
        os.fsencode(f"x{line}y"),
        b"3",
    ]


@pytest.mark.parametrize("shell", SHELLS)
def test_every_byte_that_a_name_may_have_comes_through(shell: str) -> None:
    for data in (bytes(range(1, 256)), bytes(range(1, 128)), bytes(range(255, 0, -1)), b"\n", b"-"):
        element: dict[str, str | int] = {"index": 1, "line": as_text(data)}
        command, more = shell_template("SHOW {} {.}", LINE).shell(element)
        seen = words(command, variables({**element, **more}), shell)
        assert seen == [data, os.fsencode(stem(as_text(data)))]


@example(text="it's")
@given(text=st.text(alphabet=st.characters(exclude_characters="\0", codec="utf-8")))
@settings(max_examples=25, deadline=None)
def test_what_is_quoted_is_one_word(text: str) -> None:
    assert words(f"SHOW {quoted(text)}", {}) == [text.encode()]


def test_names_stand_for_their_parameters() -> None:
    template = shell_template("train --lr {lr} -o out-{seed}/{lr}", ("index", "lr", "seed"))
    assert template.names == ("lr", "seed")
    assert template.shell({"index": 1, "lr": "0.1", "seed": "two words"}) == (
        "train --lr 0.1 -o out-'two words'/0.1",
        {},
    )


@pytest.mark.parametrize(
    "command",
    [
        "echo ${lr} $lr",
        "sh -c 'echo ${lr}'",
        'echo "${lr:-${lr}}"',
        r"echo \{lr} \{}",
        "find . -exec echo {} +",
        "f() { echo; }; echo {a,b} {1..3} { lr }",
        "awk '{print}' x",
        'git log "HEAD@{upstream}"',
        "git stash drop stash@{1}; grep -E [0-9]{4} x",
        "echo ${1} ${10} $1 ${#}",
        'awk \'{1}\' x; echo \'{"a": {}}\' "{lr.x}" "{..}"',
        "ls | xargs -I{} cp {} x",
        r"echo \{1} \{..} \{lr.x}",
        "{ echo; }; cp x{,.bak}; echo {1..3} {a..c} {01..10..2}",
    ],
)
def test_what_is_no_placeholder_stays_as_it_is(command: str) -> None:
    assert shell_template(command, ("index", "lr")).parts == (command,)


@pytest.mark.parametrize(
    ("command", "where"),
    [
        ("echo '{lr}'", "in single quotes"),
        ('echo "{lr}"', "in double quotes"),
        ('echo "it\'s {lr}"', "in double quotes"),
        (r'echo "a\"{lr}"', "in double quotes"),
        (r"echo $'a\'{lr}'", "in quotes"),
        ("echo `echo {lr}`", "in backquotes"),
        ('echo "`echo {lr}`"', "in backquotes"),
        ("echo ${x:-{lr}}", "in ${...}"),
        ("cat <<END\n{lr}\nEND", "behind <<"),
        ("cat <<-'END'; x\nit's {lr}\nEND", "behind <<"),
        ("true # {lr}", "in a comment"),
        ("""echo "$(echo '{lr}')" """, "in single quotes"),
    ],
)
def test_no_value_goes_where_it_would_not_be_one_word(command: str, where: str) -> None:
    with pytest.raises(BadJobError) as caught:
        shell_template(command, ("index", "lr"))
    assert str(caught.value) == (
        f"{{lr}} stands {where}, where a value can't be one word; put it outside, as it is quoted"
        " already, or write ${lr} there."
    )


@pytest.mark.parametrize("form", [".", "/", "//", "/."])
def test_no_variable_is_named_that_is_something_else(form: str) -> None:
    with pytest.raises(BadJobError, match=r"as it is quoted already\.$"):
        shell_template(f'echo "{{{form}}}"', LINE)
    with pytest.raises(BadJobError, match=r"or write \$\{QUEUECTL_LINE\} there\.$"):
        shell_template('echo "{}"', LINE)


def test_numbers_can_stand_in_quotes() -> None:
    template = shell_template('SHOW "page {}" \'page {}\' "it\'s {#}" {index}', ("index",))
    command, more = template.shell({"index": 7})
    assert (words(command, {}), more) == ([b"page 7", b"page 7", b"it's 7", b"7"], {})
    assert [*template.numbered([8])] == [command.replace("7", "8")]
    assert shell_template('echo "{#}" {}', LINE).names == ("index", "line")


@pytest.mark.parametrize(
    "command",
    [
        r'echo "\{}"',
        r"echo '\{}'",
        "echo `echo {}`",
        'echo "`echo {}`"',
        "echo ${x:-{}}",
        "cat <<END\n{}\nEND",
        "true # {}",
        "echo $'{}'",
    ],
)
def test_numbers_stand_nowhere_else(command: str) -> None:
    with pytest.raises(BadJobError, match=r"^\{\} stands "):
        shell_template(command, ("index",))


@pytest.mark.parametrize(
    "text",
    "{} {.} {/} {//} {/.} {1} {2.} {3/} {-1} {1//} {..} {...} {/..} {%} {+/} {lr.x} {a.b}".split(),
)
def test_what_looks_like_a_placeholder_and_is_none_is_told_of(text: str) -> None:
    with pytest.raises(BadJobError) as caught:
        shell_template(f"train {text}", ("index", "lr"))
    assert str(caught.value) == (
        f"{text} stands for nothing here; there are {{#}}, {{lr}}, and \\{text} is the braces"
        " themselves."
    )
    assert argv_template(text, ("index", "lr")).parts == (text,)


@pytest.mark.parametrize("command", ["make --parallel {1}", "cat fd.txt {1}", "x --fd {}"])
def test_what_only_looks_as_if_it_had_braces_of_its_own(command: str) -> None:
    with pytest.raises(BadJobError, match="stands for nothing here"):
        shell_template(command, ("index", "lr"))


def test_what_there_is_for_lines_is_told() -> None:
    with pytest.raises(
        BadJobError, match=r"there are \{#\}, \{\}, \{\.\}, \{/\}, \{//\}, \{/\.\}, and"
    ):
        shell_template("train {1}", LINE)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("SHOW it\\'s {lr}", [b"it's", b"a 'b"]),
        ("SHOW 'it'{lr}\"s\"", [b"ita 'bs"]),
        ('SHOW "$(printf %s {lr})"', [b"a 'b"]),
        ("(SHOW {lr})", [b"a 'b"]),
        ("# it's\nSHOW {lr}", [b"a 'b"]),
        ("SHOW a#b'c' {lr}", [b"a#bc", b"a 'b"]),
        ("""SHOW "$(echo "it's" "(" x)" {lr}""", [b"it's ( x", b"a 'b"]),
    ],
)
def test_quotes_that_are_over_are_in_no_way(command: str, expected: list[bytes]) -> None:
    filled, more = shell_template(command, ("index", "lr")).shell({"index": 1, "lr": "a 'b"})
    assert (words(filled, {}), more) == (expected, {})


def test_a_name_that_nothing_has_is_told_of() -> None:
    with pytest.raises(BadJobError, match=r"Nothing called 'sed' is there for \{sed\}; did you"):
        shell_template("train {sed}", ("index", "seed"))
    assert argv_template("{sed}", ("index", "seed")).parts == ("{sed}",)


def test_the_number_takes_the_braces_of_an_array() -> None:
    assert shell_template("page-{}.png {#} {index}", ("index",)).shell({"index": 7}) == (
        "page-7.png 7 7",
        {},
    )


def test_arguments_become_words_where_a_shell_puts_them_together() -> None:
    element: dict[str, str | int] = {"index": 1, "line": as_text(b"-\xff'/x")}
    templates = [argv_template(text, LINE) for text in ("a b{}", "", "$HOME", "{//}{/}")]
    filled = [template.as_word(element) for template in templates]
    more = {name: value for _, added in filled for name, value in added.items()}
    seen = words(f"SHOW {' '.join(word for word, _ in filled)}", variables({**element, **more}))
    assert seen == [b"a b-\xff'/x", b"", b"$HOME", b"-\xff'x"]

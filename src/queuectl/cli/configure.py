"""`worker configure FILE`, which writes options of `worker start`, and `-f FILE`, which reads them.

The file is TOML: a line for each option, by its long name without dashes. One that can be repeated
has a list, a switch has true; `args` are the words behind `--`, `db` is the queue.
"""

import os
from collections.abc import Sequence
from math import isfinite
from typing import Any

import click

from queuectl.cli.command import DB, Command
from queuectl.cli.options import DURATION
from queuectl.cli.render import write, write_json
from queuectl.errors import UsageError, did_you_mean
from queuectl.when import format_duration

WRITTEN = "queuectl.cli.configure"
"""In the context of `worker start`: its options are only to be read, and where to write them."""
ARGUMENTS_READ = "queuectl.cli.configure.arguments"
"""In the context: the words behind `--`, as a file has them."""
LARGEST = 1 << 20
_NOT_KEPT = ("files", "as_json", "file", "help")
_ARGS = "args"


def file_option() -> click.Option:
    """Make the -f that reads options; what stands on the command line wins."""
    return click.Option(
        ["--file", "-f", "files"],
        multiple=True,
        metavar="FILE",
        is_eager=True,
        expose_value=False,
        callback=_read_files,
        help="Read options from this file, which worker configure writes; those given here win."
        " Of several files the later wins.",
    )


def configuring(start: click.Command) -> Command:
    """Make the command that writes the options of another one into a file."""
    kept = [param for param in start.params if param.name not in (*_NOT_KEPT, "db")]

    def configure(file: str, as_json: bool, **given: Any) -> Any:
        """Write options of worker start into a file, for its -f.

        FILE becomes TOML, a line for each option that is given here, and is replaced if it is
        there. Paths stay as they are: relative ones count from where the worker is started.
        """
        ctx = click.get_current_context()
        ctx.meta[WRITTEN] = file, as_json
        assert start.callback is not None
        return start.callback(as_json=False, **given)

    made = Command(
        "configure",
        callback=configure,
        params=[],
        help=configure.__doc__,
        examples="""
    queuectl worker configure node.toml --count 4 --exec mail=./send --retry-wait 1m -- --fast
    queuectl --db jobs.db worker configure node.toml --exec ./handle --env LANG=C
    queuectl worker start -f node.toml
    queuectl worker start -f node.toml --count 8     # what stands here wins
    """,
    )
    made.params[:0] = [click.Argument(["file"]), *kept]
    made.params.append(click.Option(["--json", "as_json"], is_flag=True, help=_JSON))
    return made


_JSON = "Print one JSON value for programs."


def write_options(ctx: click.Context) -> int:
    """Write the options of the command line into the file that it names."""
    path, as_json = ctx.meta[WRITTEN]
    options = {
        _name(param): _plain(param, ctx.params[param.name])
        for param in ctx.command.params
        if param.name in ctx.params and param.name not in _NOT_KEPT and _is_given(ctx, param)
    }
    if DB in ctx.meta:
        options["db"] = ctx.meta[DB]
    lines = [f"{name} = {_toml(value)}" for name, value in options.items()]
    text = "\n".join(["# Options of: queuectl worker start -f FILE", *lines, ""])
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise UsageError(
            "An option has bytes that aren't UTF-8, which a file can't have."
        ) from None
    # It may have a password.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(data)
    if as_json:
        write_json({"file": path, "options": options})
    else:
        many = "1 option" if len(options) == 1 else f"{len(options)} options"
        write(f"Wrote {many} to {path}.")
    return 0


def _is_given(ctx: click.Context, param: click.Parameter) -> bool:
    from click.core import ParameterSource

    if isinstance(param, click.Argument):
        return bool(ctx.params[param.name or ""])
    return ctx.get_parameter_source(param.name or "") == ParameterSource.COMMANDLINE


def _name(param: click.Parameter) -> str:
    """Return what an option is called in a file."""
    if isinstance(param, click.Argument):
        return _ARGS
    return next(name for name in param.opts if name.startswith("--")).removeprefix("--")


def _plain(param: click.Parameter, value: Any) -> Any:
    if param.type is DURATION:
        return format_duration(value)
    if isinstance(value, tuple):
        return list(value)
    return True if value == "" and _takes_no_value(param) else value


def _takes_no_value(param: click.Parameter) -> bool:
    return isinstance(param, click.Option) and param.flag_value == "" and not param.is_flag


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    import json

    # A text of JSON is one of TOML, but for one character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


# -- reading ----------------------------------------------------------------------------


def _read_files(ctx: click.Context, param: click.Parameter, paths: Sequence[str]) -> None:
    if ctx.resilient_parsing:  # somebody pressed TAB
        return
    params = {_name(one): one for one in ctx.command.params if one.name not in _NOT_KEPT}
    found: dict[str, Any] = {}
    for path in paths:
        found |= _read(path, params)
    if (words := found.pop(_ARGS, None)) is not None:
        ctx.meta[ARGUMENTS_READ] = tuple(words)
    if DB in ctx.meta:
        found.pop("db", None)
    if found:
        named = {str(params[name].name): value for name, value in found.items()}
        ctx.default_map = {**(ctx.default_map or {}), **named}


def _read(path: str, params: dict[str, click.Parameter]) -> dict[str, Any]:
    import tomllib

    try:
        with open(path, "rb") as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise UsageError(f"{path} has more than 1 MiB; it can't be a file of options.")
        text = data.decode()
        given = tomllib.loads(text)
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is no TOML: it isn't UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is no TOML: {error}.") from None
    except (ValueError, RecursionError):
        # A number of thousands of digits, or brackets in brackets.
        raise UsageError(f"{path} has a value that no option takes.") from None
    found: dict[str, Any] = {}
    for name, value in given.items():
        key = name.replace("_", "-")
        where = f"{path}, line {_line_of(name, text)}"
        if key not in params:
            hint = did_you_mean(key, list(params), "queuectl worker start --help lists them.")
            raise UsageError(f"{where}: there is no option {name!r}; {hint}")
        if key in found:
            raise UsageError(f"{where}: {key} is there twice.")
        found[key] = _value(params[key], value, f"{where}: {name}")
    return found


def _line_of(name: str, text: str) -> int:
    """Return the line on which a name is given."""
    import re

    pattern = re.compile(rf"""\s*(\[+\s*)?["']?{re.escape(name)}["']?\s*[=.\]]""")
    lines = enumerate(text.splitlines(), 1)
    return next((number for number, line in lines if pattern.match(line)), 1)


def _value(param: click.Parameter, value: Any, what: str) -> Any:
    """Return a value as the option would have it on the command line."""
    if isinstance(param, click.Argument) or param.multiple:
        some = value if isinstance(value, list) else [value]
        if not all(isinstance(each, str) for each in some):
            raise UsageError(f"{what} takes a list of texts.")
        return some
    if isinstance(param, click.Option) and param.is_flag:
        if not isinstance(value, bool):
            raise UsageError(f"{what} takes true or false.")
        return value
    if _takes_no_value(param) and isinstance(value, bool):
        return "" if value else None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise UsageError(f"{what} takes one value.")
    if isinstance(value, float) and not isfinite(value):
        raise UsageError(f"{what} takes a number that is one.")
    return value if not isinstance(value, int) or param.type is not DURATION else str(value)

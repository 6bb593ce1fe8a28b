"""Spans, as OpenTelemetry's console exporter prints them, and programs that lack OpenTelemetry."""

import json
import re
from pathlib import Path
from typing import Any

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
TRACE, SPAN = PARENT.split("-")[1:3]
_ONE = re.compile(r"^\{\n.*?^\}$", re.MULTILINE | re.DOTALL)
_BLOCKS = """
import sys

class Blocks:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "opentelemetry":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocks())
"""


class Span:
    """A span that was printed."""

    def __init__(self, said: dict[str, Any]) -> None:
        self.name: str = said["name"]
        self.kind = said["kind"].removeprefix("SpanKind.")
        self.trace = said["context"]["trace_id"].removeprefix("0x")
        self.id = said["context"]["span_id"].removeprefix("0x")
        parent = said["parent_id"]
        self.parent = None if parent is None else parent.removeprefix("0x")
        self.began: str = said["start_time"]
        self.ended: str = said["end_time"]
        self.status: str = said["status"]["status_code"]
        self.description: str | None = said["status"].get("description")
        self.has: dict[str, Any] = said["attributes"]
        self.service: str = said["resource"]["attributes"]["service.name"]

    def __repr__(self) -> str:
        return f"<{self.name} {self.id} below {self.parent}: {self.status} {self.has}>"

    def is_meant(self, text: str | None) -> bool:
        """Tell whether a `traceparent` names it, and says that it is sampled."""
        named, _, flags = str(text).rpartition("-")
        return named == f"00-{self.trace}-{self.id}" and bool(int(flags, 16) & 1)


def spans_in(path: Path) -> list[Span]:
    """Return the spans that are in a file, in the order of their ends."""
    text = path.read_text() if path.exists() else ""
    found = [Span(json.loads(one)) for one in _ONE.findall(text)]
    return sorted(found, key=lambda span: span.ended)


def without_opentelemetry(folder: Path) -> str:
    """Make a folder that, in `PYTHONPATH`, lets no program import OpenTelemetry."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(_BLOCKS)
    return str(folder)

"""The page about metrics, the alert rules and the dashboard name metrics that there are."""

import json
import re
from collections.abc import Iterator
from typing import Any

from queuectl.metrics import MOST_NODES, MOST_QUEUES, MOST_SCHEDULES
from queuectl.metrics.families import FAMILIES
from tests.docs.markdown import ROOT, read, table_with

ALERTS = ROOT / "docs" / "prometheus-alerts.yml"
DASHBOARD = ROOT / "docs" / "grafana-dashboard.json"
SERIES = {name for family in FAMILIES for name in family.series}


def test_the_table_is_that_of_the_code() -> None:
    rows = table_with(read("docs/metrics.md"), "Name", "Type", "Labels", "Meaning")
    written = [
        (
            row["Name"].strip("`"),
            row["Type"],
            tuple(re.findall(r"`(\w+)`", row["Labels"])),
            row["Meaning"],
        )
        for row in rows
    ]
    assert written == [
        (family.name, family.kind.value, family.labels, family.help) for family in FAMILIES
    ]


def test_the_bounds_of_labels_are_those_of_the_code() -> None:
    rows = table_with(read("docs/metrics.md"), "Label", "At most", "The others")
    written = {row["Label"].strip("`"): int(row["At most"]) for row in rows}
    assert written == {"queue": MOST_QUEUES, "node": MOST_NODES, "schedule": MOST_SCHEDULES}


def panels(dashboard: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what each panel shows: its title, and its expressions."""
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


def test_the_dashboard_shows_metrics_that_there_are() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    shown = [*panels(dashboard)]
    assert len(shown) > 15
    for title, expression in shown:
        named = set(re.findall(r"queuectl_\w+", expression))
        assert named and named <= SERIES, title
    asked = re.findall(r"queuectl_\w+", json.dumps(dashboard["templating"]))
    assert asked and set(asked) <= SERIES
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)


def test_no_two_panels_lie_upon_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells


def test_the_alerts_are_about_metrics_that_there_are() -> None:
    text = ALERTS.read_text()
    named = set(re.findall(r"queuectl_\w+", text))
    assert len(named) > 10
    assert named <= SERIES

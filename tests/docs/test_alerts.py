"""Prometheus's own tool takes the alert rules and what the dashboard asks, and they fire."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.docs.test_metrics_page import ALERTS, DASHBOARD, panels
from tests.servers.install import program


def promtool(*args: str) -> subprocess.CompletedProcess[str]:
    """Run promtool, which knows the language of rules and expressions."""
    return subprocess.run([program("promtool"), *args], capture_output=True, text=True, check=False)


def test_promtool_takes_the_alerts() -> None:
    done = promtool("check", "rules", str(ALERTS))
    assert done.returncode == 0, done.stderr
    assert f"{ALERTS.read_text().count('- alert:')} rules found" in done.stdout


def test_promtool_takes_what_the_dashboard_asks(tmp_path: Path) -> None:
    rules = []
    for n, (_, expression) in enumerate(panels(json.loads(DASHBOARD.read_text()))):
        plain = expression.replace("$__rate_interval", "5m")
        rules.append({"record": f"panel:{n}", "expr": plain})
    # JSON is YAML.
    path = tmp_path / "rules.yml"
    path.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    done = promtool("check", "rules", str(path))
    assert done.returncode == 0, done.stderr


FIRING = """
rule_files: [ALERTS]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {series: 'queuectl_database_up{instance="a"}', values: '1x10 0x20'}
      - {series: 'queuectl_nodes{instance="a", state="alive"}', values: '1x10 0x20'}
      - {series: 'queuectl_oldest_ready_age_seconds{instance="a", queue="mail"}', values: '0+60x30'}
      - {series: 'queuectl_oldest_ready_age_seconds{instance="a", queue="idle"}', values: '0+60x30'}
      - {series: 'queuectl_queue_paused{instance="a", queue="mail"}', values: '0x30'}
      - {series: 'queuectl_queue_paused{instance="a", queue="idle"}', values: '1x30'}
      - series: 'queuectl_runs_total{instance="a", queue="mail", state="dead"}'
        values: '0x20 1x10'
      - series: 'queuectl_runs_total{instance="a", queue="mail", state="completed"}'
        values: '0+60x30'
      - series: 'queuectl_failures_total{instance="a", queue="mail", kind="exited"}'
        values: '0+30x30'
      - {series: 'queuectl_node_lease_seconds{instance="a"}', values: '15x30'}
      - {series: 'queuectl_node_lease_age_seconds{instance="a"}', values: '2x25 12x5'}
    alert_rule_test:
      - {eval_time: 9m, alertname: QueuectlDatabaseDown, exp_alerts: []}
      - {eval_time: 9m, alertname: QueuectlJobsDied, exp_alerts: []}
      - {eval_time: 9m, alertname: QueuectlLeaseIsLate, exp_alerts: []}
NAMES
"""
FIRE = {
    "QueuectlDatabaseDown",
    "QueuectlNobodyWorks",
    "QueuectlJobsWaitTooLong",
    "QueuectlManyRunsFail",
    "QueuectlJobsDied",
    "QueuectlLeaseIsLate",
}
"""Those that fire half an hour later, each once: what is paused may wait."""


@pytest.mark.parametrize("name", re.findall(r"- alert: (\w+)", ALERTS.read_text()))
def test_an_alert_fires_when_it_should(name: str, tmp_path: Path) -> None:
    expression = f"count(ALERTS{{alertname='{name}', alertstate='firing'}})"
    samples = "[{labels: '{}', value: 1}]" if name in FIRE else "[]"
    asked = (
        "    promql_expr_test:\n"
        f'      - {{expr: "{expression}", eval_time: 30m, exp_samples: {samples}}}'
    )
    path = tmp_path / "test.yml"
    path.write_text(FIRING.replace("ALERTS]", f"{ALERTS}]").replace("NAMES", asked))
    done = promtool("test", "rules", str(path))
    assert done.returncode == 0, done.stdout + done.stderr

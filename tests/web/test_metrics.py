"""Metrics of the queue over the web, for who may see them."""

import subprocess

from tests.support import PATIENCE, Lab
from tests.web.conftest import Client, Server


def metrics(server: Server, client: Client, **headers: str) -> Client:
    return Client(server.port, {**client.headers, **headers}, base="")


def test_who_may_see_them(lab: Lab, server: Server) -> None:
    lab.queue.enqueue("true")
    assert Client(server.port, base="").get("/metrics").status == 401
    assert metrics(server, server.client("view", queues=("mail",))).get("/metrics").status == 403
    reply = metrics(server, server.client("view")).get("/metrics")
    assert reply.status == 200
    assert reply.headers["content-type"].startswith("text/plain; version=")
    assert b'queuectl_jobs{queue="default",state="pending"} 1.0' in reply.body


def test_promtool_takes_them(lab: Lab, server: Server) -> None:
    lab.queue.enqueue("true", queue="odd queue")
    reply = metrics(server, server.client("view")).get("/metrics")
    done = subprocess.run(
        ["promtool", "check", "metrics"],
        input=reply.body,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_those_who_can_have_openmetrics(server: Server) -> None:
    client = metrics(server, server.client("view"), Accept="application/openmetrics-text")
    reply = client.get("/metrics")
    assert reply.headers["content-type"].startswith("application/openmetrics-text")
    assert reply.body.endswith(b"# EOF\n")

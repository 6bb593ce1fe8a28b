"""The examples for frameworks, as they are used: requests to an application, a worker beside it."""

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import httpx2
import pytest
from fastapi.testclient import TestClient

from tests.docs.markdown import ROOT
from tests.support import PATIENCE, Lab, wait_for


@pytest.fixture
def load(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Imports an example whose queue is that of the lab, and starts a worker for it."""
    loaded = []

    def load(name: str) -> Any:
        monkeypatch.setenv("SHOP_DB", lab.url)
        lab.extra_env |= {"SHOP_DB": lab.url, "PYTHONPATH": str(ROOT)}
        module: Any = import_module(f"examples.{name}")
        loaded.append(module)
        lab.node("--app", f"examples.{name}:queue")
        return module

    yield load
    for module in loaded:
        module.queue.close()
        del sys.modules[module.__name__]


def test_fastapi(load: Callable[[str], Any]) -> None:
    shop = load("fastapi_shop")
    with TestClient(shop.app) as client:
        order = {"item": "tea", "count": 3, "price": "1.50"}
        taken = client.post("/orders", json=order)
        assert taken.status_code == 202
        invoice = client.get(f"/invoices/{taken.json()['job']}", params={"wait": PATIENCE})
        assert invoice.json() == {"text": "3 x tea", "total": "4.50"}
        assert client.get("/invoices/none").status_code == 404


def test_flask(load: Callable[[str], Any]) -> None:
    client = load("flask_shop").app.test_client()
    taken = client.post("/pictures", json={"customer": "me", "pictures": ["a.png", "bc.png"]})
    assert taken.status_code == 202

    def done() -> Any:
        answer = client.get(f"/pictures/{taken.json['job']}").json
        return answer if answer["state"] == "completed" else None

    assert wait_for(done)["sizes"] == {"a.png": 5, "bc.png": 6}
    assert client.get("/pictures/none").status_code == 404


def test_django(lab: Lab) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    settings = "examples.django_shop.settings"
    lab.extra_env |= {"SHOP_DB": lab.url, "PYTHONPATH": str(ROOT)}
    lab.extra_env["DJANGO_SETTINGS_MODULE"] = settings
    lab.node("--app", "queuectl.contrib.django:app")
    server_line = [sys.executable, "-m", "django", "runserver", "--noreload", f"127.0.0.1:{port}"]
    with (lab.folder / "django.log").open("wb") as log:
        process = subprocess.Popen(
            server_line,
            env=lab.env,
            cwd=lab.folder,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
        )
    try:
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
            wait_for(lambda: _answers(client), "a server that answers")
            taken = client.post("/mails", json={"to": "me", "text": "grüße"})
            assert taken.status_code == 202, taken.text

            def sent() -> Any:
                answer = client.get(f"/mails/{taken.json()['job']}").json()
                return answer if answer["status"] == "SUCCESSFUL" else None

            assert wait_for(sent)["receipt"] == {"to": "me", "bytes": 7}
    finally:
        process.terminate()
        process.wait(PATIENCE)


def _answers(client: httpx2.Client) -> bool:
    try:
        return client.get("/mails/none").status_code == 404
    except httpx2.TransportError:
        return False

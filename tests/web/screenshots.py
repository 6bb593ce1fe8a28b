"""Takes the pictures of `docs/dashboard.md`: `python -m tests.web.screenshots [FOLDER]`."""

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page

from tests.support import lab_in
from tests.web import scene
from tests.web.browser import chromium, open_page, sign_in
from tests.web.conftest import Server

FOLDER = Path(__file__).parents[2] / "docs" / "web"
PAGES = {
    "overview": "/",
    "jobs": "/jobs",
    "job": f"/jobs/{scene.LIVE}",
    "dead-job": "/jobs/bounce-3",
    "blocked-job": "/jobs/night-report",
    "graph": "/jobs/night-report/graph",
    "relatives": "/jobs/merge/relatives",
    "dead": "/dead",
    "groups": "/groups",
    "group": "/groups/ocr",
    "results": f"/groups/{scene.SWEEP}/results?sort=result.loss",
    "queues": "/queues",
    "queue": "/queues/mail",
    "schedules": "/schedules",
    "schedule": "/schedules/nightly-backup",
    "webhooks": "/webhooks",
    "webhook": "/webhooks/ops",
    "nodes": "/nodes",
    "audit": "/events",
    "settings": "/settings",
    "access": "/access",
    "new-job": "/new/job",
    "clone": "/jobs/held-invoice/clone",
    "new-schedule": "/new/schedule",
    "limits": "/queues/mail/limits",
}
"""What is to be seen in which picture."""
DARK = ("overview", "job", "graph", "group")
NARROW = ("overview", "jobs", "graph", "groups")
WIDE, PHONE = {"width": 1180, "height": 720}, {"width": 390, "height": 760}


def shoot(page: Page, url: str, path: Path) -> None:
    """Take a picture of a page once it is quiet."""
    page.goto(url)
    page.wait_for_selector("#pulse.on", state="attached", timeout=15_000)
    page.wait_for_timeout(1_500)
    page.screenshot(path=path)


def main() -> int:
    """Take all of them."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="shop-") as place,
        lab_in(Path(place)) as lab,
        chromium() as browser,
    ):
        scene.fill(lab)
        scene.remember(lab)
        server = Server(lab, "--allow-submit")
        try:
            page = open_page(browser, viewport=WIDE)
            page.goto(f"{server.url}/sign-in")
            page.screenshot(path=folder / "sign-in.png")
            sign_in(page, server)
            for name, path in PAGES.items():
                shoot(page, server.url + path, folder / f"{name}.png")
            for names, how, more in (
                (DARK, {"viewport": WIDE, "color_scheme": "dark"}, "dark"),
                (NARROW, {"viewport": PHONE}, "phone"),
            ):
                other = open_page(browser, **how)
                sign_in(other, server)
                for name in names:
                    shoot(other, server.url + PAGES[name], folder / f"{name}-{more}.png")
        finally:
            server.stop()
            server.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""A real browser: Debian's chromium, driven by playwright."""

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Page, sync_playwright

from tests.servers.install import program
from tests.support import PATIENCE
from tests.web.conftest import Server

ARGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    " --disable-component-update --disable-sync --disable-dev-shm-usage"
).split()


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a browser; one that isn't there is a failure, never a skip."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program("chromium"), args=ARGS, headless=True
        )
        try:
            yield browser
        finally:
            browser.close()


class Seen:
    """What a page has asked for and complained of."""

    def __init__(self, page: Page, server: Server) -> None:
        self.complaints: list[str] = []
        self.strangers: list[str] = []
        ours = f"127.0.0.1:{server.port}"
        page.on(
            "console",
            lambda said: (
                self.complaints.append(said.text) if said.type in ("error", "warning") else None
            ),
        )
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on(
            "request",
            lambda asked: (
                self.strangers.append(asked.url)
                if urlsplit(asked.url).netloc not in (ours, "")
                else None
            ),
        )

    def check(self) -> None:
        """Fail if there was an error, or a request to another host."""
        assert self.complaints == []
        assert self.strangers == []


def open_page(browser: Browser, **how: object) -> Page:
    """Open an empty page of its own, without anybody's cookies."""
    context = browser.new_context(locale="en-GB", timezone_id="Asia/Tokyo", **how)  # type: ignore[arg-type]
    page = context.new_page()
    page.set_default_timeout(PATIENCE * 1000)
    return page


def go(page: Page, server: Server, path: str) -> None:
    """Open a page, and wait until it is live."""
    page.goto(server.url + path)
    page.wait_for_selector("#pulse.on", state="attached")


def sign_in(page: Page, server: Server) -> None:
    """Sign in by a new link, whose page sends us to the overview."""
    secret = server.lab.queue.access.link("ann", ["operate", "submit", "admin"])
    page.goto(f"{server.url}/sign-in#{secret}")
    page.wait_for_selector("h1:has-text('Overview')")

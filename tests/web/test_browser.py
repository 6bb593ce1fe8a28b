"""The dashboard in a real browser: what people see and do there."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from queuectl import State
from queuectl.access import Kind, Role
from queuectl.filter import Filter
from tests.support import PATIENCE, Lab, lab_in, wait_for
from tests.web import scene
from tests.web.browser import Seen, chromium, go, open_page, sign_in
from tests.web.conftest import Server
from tests.web.screenshots import PAGES, PHONE
from tests.web.test_error_pages import alter, spoil

WIDTHS = {"wide": {"width": 1280, "height": 900}, "phone": {"width": 360, "height": 740}}

TOO_WIDE = """() => [...document.querySelectorAll("main *, footer *")]
  .filter(one => !one.closest(".visually-hidden, .numbers, .terminal, .drawing"))
  .filter(one => !one.closest("svg, datalist, select"))
  .filter(one => one.getBoundingClientRect().right > innerWidth)
  .filter(one => getComputedStyle(one.parentElement).overflow !== "hidden")
  .map(one => one.outerHTML.slice(0, 160))"""
"""What one would have to scroll sideways for."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server over a queue with something of everything; nobody changes it."""
    with lab_in(tmp_path_factory.mktemp("busy")) as lab:
        scene.fill(lab)
        scene.remember(lab, hours=3)
        server = Server(lab, "--allow-submit", "--no-link")
        try:
            yield server
        finally:
            server.close()


@pytest.fixture
def server(lab: Lab) -> Iterator[Server]:
    started = Server(lab, "--allow-submit")
    try:
        yield started
    finally:
        started.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A browser window of its own."""
    found = open_page(browser, viewport=WIDTHS["wide"])
    try:
        yield found
    finally:
        found.context.close()


class TestSigning:
    def test_by_the_printed_link_and_out_again(self, page: Page, server: Server) -> None:
        seen = Seen(page, server)
        page.goto(server.link)
        page.wait_for_selector("h1:has-text('Overview')")
        assert "qtk_" not in page.url
        (cookie,) = page.context.cookies()
        assert cookie["httpOnly"] is True
        assert cookie["sameSite"] == "Strict"
        # A server that lets things be submitted prints a link that is good for that.
        page.click("nav >> text=Jobs")
        page.wait_for_selector("a:has-text('New job')")
        page.click("text=Sign out")
        page.wait_for_selector("h1:has-text('Sign in')")
        assert page.context.cookies() == []
        page.goto(server.url + "/jobs")
        page.wait_for_selector("h1:has-text('Sign in')")
        seen.check()

    def test_by_a_token_without_javascript_and_back_to_the_page(
        self, browser: Browser, lab: Lab, server: Server
    ) -> None:
        page = open_page(browser, java_script_enabled=False)
        _, token = lab.queue.access.add_token("bot", ["view"])
        page.goto(server.url + "/jobs?state=dead")
        page.fill("#secret", "qtl_wrong")
        page.click("button.main")
        assert "isn't good" in page.inner_text("[role=alert]")
        page.fill("#secret", token)
        page.click("button.main")
        assert page.url == server.url + "/jobs?state=dead"
        assert page.inner_text("h1") == "Jobs"
        page.context.close()

    def test_under_a_base_path(self, page: Page, lab: Lab) -> None:
        lab.queue.enqueue("echo below", id="below")
        server = Server(lab, "--base-path", "/ops/queue")
        try:
            seen = Seen(page, server)
            page.goto(server.link)
            page.wait_for_selector("h1:has-text('Overview')")
            page.click("nav >> text=Jobs")
            page.click("a:has-text('echo below')")
            page.wait_for_selector("#output[data-ended], #output.live")
            assert page.url == f"{server.url}/jobs/below"
            page.click("button:has-text('Hold')")
            page.wait_for_selector(".tag:has-text('held')")
            names = "performance.getEntriesByType('resource').map(one => one.name)"
            asked = [urlsplit(name).path for name in page.evaluate(names)]
            assert asked
            assert all(path.startswith("/ops/queue/") for path in asked)
            seen.check()
        finally:
            server.close()


@pytest.mark.parametrize("has_script", [True, False])
def test_what_goes_wrong_is_said_and_tried_again(
    browser: Browser, lab: Lab, server: Server, has_script: bool
) -> None:
    _, token = lab.queue.access.add_token("bot", ["admin"])
    page = open_page(browser, java_script_enabled=has_script)
    page.goto(server.url + "/sign-in")
    page.fill("#secret", token)
    page.click("button.main")
    page.wait_for_selector("h1:has-text('Overview')")
    spoil(lab)
    page.goto(server.url + "/access")
    assert page.inner_text("h1") == "A fault of ours"
    alter(lab, "ALTER TABLE events RENAME TO elsewhere")
    page.goto(server.url + "/events?kind=hold")
    assert page.inner_text("h1") == "The database can't be used"
    alter(lab, "ALTER TABLE elsewhere RENAME TO events")
    page.click("text=try again")
    page.wait_for_selector("h1:has-text('Audit log')")
    assert page.url == server.url + "/events?kind=hold"
    page.context.close()


class TestEachPage:
    @pytest.mark.parametrize("name", PAGES)
    def test_has_nothing_serious_for_axe_in_any_colours_or_width(
        self, browser: Browser, busy: Server, name: str
    ) -> None:
        for colours, width in (("light", "wide"), ("dark", "wide"), ("light", "phone")):
            page = open_page(browser, viewport=WIDTHS[width], color_scheme=colours)
            seen = Seen(page, busy)
            sign_in(page, busy)
            go(page, busy, PAGES[name])
            found = Axe().run(page).response["violations"]
            bad = [
                (one["id"], [node["html"][:160] for node in one["nodes"]][:4])
                for one in found
                if one["impact"] in ("serious", "critical")
            ]
            assert bad == [], (colours, width)
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= WIDTHS[width]["width"], "the page itself scrolls sideways"
            if width == "phone":
                assert page.evaluate(TOO_WIDE) == []
            seen.check()
            page.context.close()

    def test_a_phone_shows_of_each_job_what_matters(self, browser: Browser, busy: Server) -> None:
        page = open_page(browser, viewport=PHONE)
        sign_in(page, busy)
        go(page, busy, "/jobs?text=cold-storage")
        row = page.locator("tr[data-row=cold-storage]")
        shown = row.inner_text()
        for text in ("pending", "tar -c 2025", "cold-storage", "archive"):
            assert text in shown
            box = row.get_by_text(text, exact=True).bounding_box()
            assert box is not None
            assert 0 <= box["x"] <= box["x"] + box["width"] <= PHONE["width"], text
        label = (
            "getComputedStyle(document.querySelector('td[data-label=Queue]'), '::before').content"
        )
        assert "Queue" in page.evaluate(label)
        row.locator("input[type=checkbox]").check()
        assert "those chosen (1)" in page.inner_text("#bulk-which")
        page.context.close()

    def test_signing_in_has_nothing_serious_either(self, page: Page, busy: Server) -> None:
        page.goto(busy.url + "/sign-in")
        found = Axe().run(page).response["violations"]
        assert [one["id"] for one in found if one["impact"] in ("serious", "critical")] == []

    @pytest.mark.parametrize("name", PAGES)
    def test_is_readable_without_javascript(
        self, browser: Browser, busy: Server, name: str
    ) -> None:
        page = open_page(browser, java_script_enabled=False)
        secret = busy.lab.queue.access.add_token(f"nojs-{name}", ["admin"])[1]
        page.goto(busy.url + "/sign-in")
        page.fill("#secret", secret)
        page.click("button.main")
        page.goto(busy.url + PAGES[name])
        assert page.is_visible("main h1")
        assert (
            page.locator("main button:visible, main form[data-api]:visible")
            .filter(has_not_text="Filter")
            .count()
            == 0
        )
        if name == "dead-job":
            assert "connection refused" in page.inner_text("#terminal")
        page.context.close()


class TestLive:
    def test_times_are_in_the_zone_of_the_reader(self, page: Page, busy: Server) -> None:
        sign_in(page, busy)
        go(page, busy, "/jobs/bounce-1")
        told = page.evaluate(
            "[...document.querySelectorAll('dl.fields time')].map(t => [t.dateTime, t.title])"
        )
        iso, title = told[0]
        assert (int(title[11:13]) - int(iso[11:13])) % 24 == 9

    def test_what_happens_is_seen_without_reloading(
        self, page: Page, lab: Lab, server: Server
    ) -> None:
        seen = Seen(page, server)
        sign_in(page, server)
        page.evaluate("window.same = true")
        page.wait_for_selector("#pulse.on", state="attached")
        lab.queue.enqueue("echo hello", queue="fresh")
        page.wait_for_selector("#queues a:has-text('fresh')")
        assert page.evaluate("window.same")
        seen.check()

    def test_a_job_that_is_deleted_elsewhere_is_said_to_be_gone(
        self, page: Page, lab: Lab, server: Server
    ) -> None:
        lab.queue.enqueue("true", id="j")
        sign_in(page, server)
        go(page, server, "/jobs/j")
        lab.queue.remove("j")
        page.wait_for_selector("#gone:has-text('deleted')")
        assert page.locator("main button:visible, main .actions a:visible").count() == 0

    def test_a_lost_connection_is_said_in_words(self, page: Page, server: Server) -> None:
        sign_in(page, server)
        go(page, server, "/queues")
        server.stop()
        page.wait_for_selector("#lost:has-text('The connection is lost')")
        assert not page.locator("#pulse.on").count()

    def test_output_is_followed_in_colours_and_found(
        self, page: Page, lab: Lab, server: Server
    ) -> None:
        lab.node()
        lab.queue.enqueue(
            "printf '\\033[31;1mred\\033[0m plain\\n';"
            f" while [ ! -e {lab.folder}/go ]; do sleep 0.05; done; echo the needle; echo oh >&2",
            id="live",
        )
        lab.wait_state("live", State.PROCESSING)
        seen = Seen(page, server)
        sign_in(page, server)
        go(page, server, "/jobs/live")
        page.wait_for_selector("#terminal .fg-red.bold:has-text('red')")
        assert "\x1b" not in page.inner_text("#terminal")
        (lab.folder / "go").touch()
        page.wait_for_selector("#terminal pre.stderr:has-text('oh')")
        page.wait_for_selector("#output[data-ended=completed]")
        page.wait_for_selector("#head .state.completed")
        page.fill("#find", "NEEDLE")
        page.wait_for_selector("#found:has-text('1 found')")
        with page.expect_download() as saved:
            page.click("#output a:has-text('Download')")
        assert Path(saved.value.path()).read_bytes() == b"\x1b[31;1mred\x1b[0m plain\nthe needle\n"
        seen.check()

    def test_output_that_is_made_to_be_slow_to_show(
        self, page: Page, lab: Lab, server: Server
    ) -> None:
        write = (
            "import sys; w = sys.stdout.write; w('\\r' * 100_000 + 'x\\n');"
            " [w('\\x1b[3%dm%d' % (n % 8, n % 10)) for n in range(60_000)]; w('\\x1b[0m the end')"
        )
        lab.queue.enqueue(["python3", "-c", write], id="odd")
        lab.node("--drain").wait(PATIENCE)
        sign_in(page, server)
        go(page, server, "/jobs/odd")
        page.wait_for_selector("#output[data-ended=completed]")
        page.wait_for_selector("#terminal span:has-text('the end')")
        count = "document.querySelectorAll('#terminal *').length"
        wait_for(lambda: page.evaluate(count) <= 10_000, "as many pieces as there may be")

    def test_progress_bars_look_as_in_a_terminal_and_streams_can_be_chosen(
        self, page: Page, lab: Lab, server: Server
    ) -> None:
        lab.node()
        lab.queue.enqueue(
            "printf '10%%\\r50%%\\r100%% done\\n'; echo bad >&2; printf 'abc\\rx\\033[K\\n';"
            " printf 'long line\\rshort'; printf 'dos\\r\\n' >&2",
            id="bars",
        )
        lab.wait_state("bars", State.COMPLETED)
        seen = Seen(page, server)
        sign_in(page, server)
        go(page, server, "/jobs/bars")
        page.wait_for_selector("#output[data-ended=completed]")
        assert page.inner_text("#terminal pre.stdout") == "100% done\nx\nshortline"
        assert page.inner_text("#terminal pre.stderr").strip() == "bad\ndos"
        assert page.is_visible("text=stdout and stderr are kept apart")
        page.check("input[name=stream][value=stderr]")
        assert not page.is_visible("#terminal pre.stdout")
        assert page.is_visible("#terminal pre.stderr")
        page.fill("#find", "done")
        page.wait_for_selector("#found:has-text('0 found')")
        seen.check()

    def test_a_job_that_is_silent_is_said_to_be(self, page: Page, lab: Lab, server: Server) -> None:
        lab.node()
        lab.queue.enqueue("sleep 600", id="silent")
        lab.wait_state("silent", State.PROCESSING)
        sign_in(page, server)
        go(page, server, "/jobs/silent")
        assert page.inner_text("#terminal") == "No output yet."

    def test_a_job_that_is_retried_is_followed_again(
        self, page: Page, lab: Lab, server: Server
    ) -> None:
        lab.node()
        lab.queue.enqueue("echo run $QUEUECTL_ATTEMPT; exit 3", id="again", max_retries=0)
        lab.wait_state("again", State.DEAD)
        sign_in(page, server)
        go(page, server, "/jobs/again")
        page.wait_for_selector("#output[data-ended=dead]")
        lab.queue.retry("again")
        page.wait_for_selector("#terminal pre:has-text('run 2')")

    def test_what_nobody_looks_at_goes_on_where_it_was(
        self, page: Page, lab: Lab, server: Server
    ) -> None:
        lab.node()
        wait = "while [ ! -e {}/{} ]; do sleep 0.05; done"
        lab.queue.enqueue(
            f"echo one; {wait.format(lab.folder, 'a')}; echo two;"
            f" {wait.format(lab.folder, 'b')}; echo three",
            id="long",
        )
        sign_in(page, server)
        go(page, server, "/jobs/long")
        page.wait_for_selector("#terminal pre:has-text('one')")
        turn = (
            "hidden => { Object.defineProperty(document, 'hidden', {value: hidden, configurable:"
            " true}); document.dispatchEvent(new Event('visibilitychange')); }"
        )
        page.evaluate(turn, True)
        (lab.folder / "a").touch()
        wait_for(lambda: b"two" in lab.queue.written("long").output.stdout, "more output")
        page.evaluate(turn, False)
        page.wait_for_selector("#terminal pre:has-text('two')")
        (lab.folder / "b").touch()
        page.wait_for_selector("#output[data-ended=completed]")
        assert "".join(page.locator("#terminal pre").all_inner_texts()).split() == [
            "one",
            "two",
            "three",
        ]


class TestChanging:
    def test_a_group_of_dead_letters_is_retried_by_one_click(
        self, page: Page, lab: Lab, server: Server
    ) -> None:
        for number in range(7):
            lab.queue.enqueue(f"echo bad {number} >&2; exit 3", id=f"d{number}", max_retries=0)
        lab.queue.enqueue("exit 4", id="other", max_retries=0)
        node = lab.node("--drain")
        node.wait(PATIENCE)
        seen = Seen(page, server)
        sign_in(page, server)
        go(page, server, "/dead")
        assert page.locator("article.group").count() == 2
        for key in "jjk":
            page.keyboard.press(key)
        assert page.evaluate("document.activeElement.textContent") in page.inner_text(".group.at")
        assert page.locator("article.group").first.get_attribute("class") == "card group at"
        page.locator("article.group").first.get_by_role("button", name="Retry all").click()
        page.click("dialog button:has-text('Retry 7 jobs')")
        page.wait_for_selector(".toast:has-text('7 jobs back in line.')")
        states = [lab.queue.get(f"d{number}").state for number in range(7)]
        assert states == [State.PENDING] * 7
        assert lab.queue.get("other").state == State.DEAD
        wait_for(lambda: page.locator("article.group").count() == 1, "one group")
        who = {event.who for event in lab.queue.events(limit=7)}
        assert all(one.startswith("ann (web)") for one in who)
        seen.check()

    @pytest.mark.timeout(400)
    def test_all_that_fit_are_cancelled_at_100_000_jobs(
        self, page: Page, lab: Lab, server: Server
    ) -> None:
        many = 100_000
        lab.queue.enqueue_many({"command": "true", "queue": "big"} for _ in range(many))
        lab.queue.enqueue("true", id="spared")
        page.set_default_timeout(300_000)
        seen = Seen(page, server)
        sign_in(page, server)
        go(page, server, "/jobs?queue=big")
        assert page.inner_text("#total") == "100,000 fit"
        page.select_option("#bulk-which", "all")
        page.click("#bulk button:has-text('Cancel')")
        page.click("dialog button:has-text('Cancel 100,000 jobs')")
        page.wait_for_selector(".toast:has-text('100,000 jobs cancelled.')")
        assert lab.queue.count(Filter(states=(State.CANCELLED,))) == many
        assert lab.queue.get("spared").state == State.PENDING
        seen.check()

    def test_a_page_that_is_not_let_listen_asks_for_itself(
        self, page: Page, lab: Lab, server: Server
    ) -> None:
        # As it is where thousands listen already.
        page.route("**/api/v1/live", lambda asked: asked.fulfill(status=503))
        sign_in(page, server)
        page.goto(f"{server.url}/jobs")
        page.wait_for_selector("text=No jobs fit.")
        lab.queue.enqueue("true", id="news")
        page.wait_for_selector("#list >> text=news")

    def test_those_chosen_are_held(self, page: Page, lab: Lab, server: Server) -> None:
        for number in range(5):
            lab.queue.enqueue("true", id=f"j{number}")
        sign_in(page, server)
        go(page, server, "/jobs")
        page.check("input[value=j1]")
        page.check("input[value=j3]")
        page.click("#bulk button:has-text('Hold')")
        page.click("dialog button:has-text('Hold 2 jobs')")
        page.wait_for_selector(".toast:has-text('2 jobs held.')")
        assert [lab.queue.get(f"j{n}").is_held for n in range(5)] == [0, 1, 0, 1, 0]

    def test_a_list_with_ticks_stands_still_and_goes_on_after_what_is_done(
        self, page: Page, lab: Lab, server: Server
    ) -> None:
        for number in range(3):
            lab.queue.enqueue("true", id=f"j{number}")
        lab.queue.cancel("j2")
        seen = Seen(page, server)
        sign_in(page, server)
        go(page, server, "/jobs")
        assert not page.is_visible("#frozen")
        page.check("input[value=j1]")
        page.wait_for_selector("#frozen:has-text('stands still')")
        page.click("#untick")
        assert not page.is_checked("input[value=j1]")
        assert not page.is_visible("#frozen")
        page.check("#all")
        lab.queue.enqueue("true", id="news")
        page.click("#bulk button:has-text('Cancel')")
        yes = page.locator("dialog button.main")
        page.wait_for_selector("dialog button:has-text('Cancel 2 jobs')")
        assert page.locator("dialog button").all_inner_texts() == ["Cancel 2 jobs", "Keep them"]
        told = page.inner_text("dialog")
        assert "1 job can't be cancelled, and stay" in told
        assert "1 job: Job … is cancelled already; it can't be cancelled." in told
        yes.click()
        page.wait_for_selector(".toast:has-text('2 jobs cancelled, 1 was not.')")
        page.wait_for_selector("tr[data-row=j1] .state.cancelled")
        page.wait_for_selector("tr[data-row=news]")
        assert page.locator(".pick input:checked").count() == 0
        seen.check()

    def test_what_was_done_is_undone_from_where_it_is_told_and_from_the_audit_log(
        self, page: Page, lab: Lab, server: Server
    ) -> None:
        for number in range(3):
            lab.queue.enqueue("true", id=f"j{number}")
        seen = Seen(page, server)
        sign_in(page, server)
        go(page, server, "/jobs")
        page.check("#all")
        page.click("#bulk button:has-text('Cancel')")
        page.click("dialog button:has-text('Cancel 3 jobs')")
        page.click(".toast:has-text('3 jobs cancelled.') button:has-text('Undo')")
        page.wait_for_selector(".toast:has-text('3 jobs brought back.')")
        assert lab.queue.count(state="pending") == 3
        go(page, server, "/jobs/j1")
        page.click("button:has-text('Hold')")
        page.wait_for_selector("#head .tag:has-text('held')")
        go(page, server, "/events")
        page.locator("tr:has-text('hold') button:has-text('Undo')").click()
        page.click("dialog button:has-text('Bring back 1 job')")
        page.wait_for_selector(".toast:has-text('1 job brought back.')")
        assert not lab.queue.get("j1").is_held
        seen.check()

    def test_what_is_wrong_with_a_filter_is_said_beside_it(
        self, page: Page, lab: Lab, server: Server
    ) -> None:
        sign_in(page, server)
        go(page, server, "/jobs")
        page.fill("input[name=since]", "half past nine")
        page.fill("input[name=queue]", "mail")
        page.click("button:has-text('Filter')")
        page.wait_for_selector("form.filters [role=alert]:has-text('half past nine')")
        assert page.input_value("input[name=since]") == "half past nine"
        assert page.input_value("input[name=queue]") == "mail"
        lab.queue.enqueue("true", id="soon", delay="1h", keys=["k"])
        lab.queue.enqueue("true", id="now", keys=["k"])
        page.fill("input[name=since]", "")
        page.fill("input[name=queue]", "")
        page.fill("input[name=key]", "k")
        page.select_option("select[name=due]", "later")
        page.click("button:has-text('Filter')")
        page.wait_for_selector("tr[data-row=soon]")
        assert page.locator("tr[data-row=now]").count() == 0

    def test_one_job_is_held_edited_cloned_and_deleted(
        self, page: Page, lab: Lab, server: Server
    ) -> None:
        lab.queue.enqueue("echo once", id="one", tags=["x"], env={"TOKEN": "hidden"})
        # One that nobody uses would be asked about, which browsers tell as an error.
        lab.queue.enqueue("true", queue="other")
        is_of_another = re.compile(r"/jobs/(?!one)\w+$")
        seen = Seen(page, server)
        sign_in(page, server)
        go(page, server, "/jobs/one")
        page.click("button:has-text('Hold')")
        page.wait_for_selector("#head .tag:has-text('held')")
        page.click("a:has-text('Edit')")
        page.fill("input[name=priority]", "7")
        page.fill("input[name=tags]", "x, y")
        page.click("summary:has-text('When')")
        page.fill("input[name=timeout]", "90s")
        page.click("button:has-text('Change')")
        page.wait_for_url(server.url + "/jobs/one")
        changed = lab.queue.get("one")
        assert (changed.priority, changed.tags, changed.timeout) == (7, ("x", "y"), 90_000)
        page.click("a:has-text('Clone')")
        assert "Its id one" in page.inner_text(".leaves")
        page.fill("input[name=queue]", "other")
        page.click("button:has-text('Enqueue')")
        page.wait_for_url(is_of_another)
        other = lab.queue.get(page.url.rpartition("/")[2])
        assert (other.command, other.tags, other.timeout) == ("echo once", ("x", "y"), 90_000)
        assert (other.queue, other.env) == ("other", {"TOKEN": "hidden"})
        go(page, server, "/jobs/one")
        page.click("button:has-text('Delete')")
        page.click("dialog button:has-text('Delete the job')")
        page.wait_for_url(server.url + "/jobs")
        assert lab.queue.find("one") is None
        seen.check()

    def test_schedules_queues_and_settings(self, page: Page, lab: Lab, server: Server) -> None:
        lab.queue.schedules.add("tick", "0 3 * * *", "echo tick")
        lab.queue.enqueue("true", queue="Q")
        seen = Seen(page, server)
        sign_in(page, server)
        go(page, server, "/schedules")
        page.click("td button:has-text('Run')")
        wait_for(lambda: lab.queue.count() == 2)
        page.click("td button:has-text('Pause')")
        page.wait_for_selector(".tag:has-text('paused')")
        go(page, server, "/queues")
        page.click("tr[data-row=Q] button:has-text('Pause')")
        page.wait_for_selector("tr[data-row=Q] .tag:has-text('paused')")
        page.click("td a:text-is('Q')")
        page.wait_for_selector(".note:has-text('Queue Q is paused by ann (web)')")
        go(page, server, "/settings")
        page.fill("input[aria-label=max_retries]", "9")
        page.press("input[aria-label=max_retries]", "Enter")
        page.wait_for_selector("tr[data-row=max_retries] button:has-text('Unset')")
        assert lab.queue.settings.max_retries == 9
        # What is changed elsewhere is seen, but for where somebody writes.
        page.wait_for_selector("#pulse.on", state="attached")
        page.fill("input[aria-label=workers]", "5")
        page.focus("input[aria-label=jitter]")
        lab.queue.set_setting("workers", 3)
        lab.queue.set_setting("retention", "5d")
        lab.queue.set_setting("backoff", "linear")
        page.wait_for_selector("tr[data-row=retention] input[value='5d']")
        assert page.input_value("input[aria-label=workers]") == "5"
        assert page.input_value("select[aria-label=backoff]") == "linear"
        page.click("tr[data-row=max_retries] button:has-text('Unset')")
        page.wait_for_selector("tr[data-row=max_retries] button:has-text('Unset')", state="hidden")
        assert page.input_value("input[aria-label=max_retries]") == "3"
        assert lab.queue.settings.max_retries == 3
        seen.check()

    def test_a_new_job_and_what_is_wrong_with_it(
        self, page: Page, lab: Lab, server: Server
    ) -> None:
        lab.queue.enqueue("true", queue="reports", id="taken")
        seen = Seen(page, server)
        sign_in(page, server)
        go(page, server, "/jobs")
        page.click("a:has-text('New job')")
        # Nothing is needed of one that isn't said, and what is said at once is asked about.
        page.click("button:has-text('Enqueue')")
        page.wait_for_selector("[name=command][aria-invalid]:focus")
        page.fill("[name=command]", "echo new")
        page.wait_for_selector("[aria-invalid]", state="detached")
        page.fill("[name=queue]", "report")
        page.press("[name=queue]", "Enter")
        page.wait_for_selector("dialog:has-text(\"did you mean 'reports'?\")")
        page.click("dialog button:has-text('Change the name')")
        page.wait_for_selector("[name=queue]:focus")
        page.wait_for_selector(".wrong:has-text(\"did you mean 'reports'?\")")
        page.fill("[name=queue]", "reports")
        page.wait_for_selector(".wrong:has-text('did you mean')", state="hidden")
        page.click("summary:has-text('When')")
        page.fill("[name=timeout]", "soon")
        page.click("summary:has-text('When')")
        page.click("summary:has-text('Where it runs')")
        page.fill("[name=env]", "A=1\nB=2=3")
        page.click("button:has-text('Enqueue')")
        # It is said beside the field, which is shown, and the keyboard is there.
        page.wait_for_selector("[name=timeout][aria-invalid]:focus")
        told = page.get_attribute("[name=timeout]", "aria-describedby") or ""
        assert "soon" in page.inner_text(f"#{told.split()[-1]}")
        page.fill("[name=timeout]", "5m")
        page.wait_for_selector("[aria-invalid]", state="detached")
        for name, wrong, said in (
            ("cwd", "here", "cwd must be an absolute path here."),
            ("max_wait", "1h", "“Longest debounce” is about a unique key"),
            ("id", "taken", "is taken"),
            ("data", "x", "either data or a command"),
        ):
            page.eval_on_selector(f"[name={name}]", "it => { it.closest('details').open = true; }")
            page.fill(f"[name={name}]", wrong)
            page.click("button:has-text('Enqueue')")
            page.wait_for_selector(f"[name={name}][aria-invalid]:focus")
            assert said in page.inner_text(f".field:has([name={name}]) .wrong")
            page.fill(f"[name={name}]", "")
        page.click("button:has-text('Enqueue')")
        page.wait_for_url(re.compile(r"/jobs/\w+$"))
        made = lab.queue.get(page.url.rpartition("/")[2])
        assert (made.command, made.queue, made.timeout) == ("echo new", "reports", 300_000)
        assert made.env == {"A": "1", "B": "2=3"}
        # The refusal is an answer that browsers write into their console, and so is no such queue.
        assert all(re.search("400|404|409", said) for said in seen.complaints)

    def test_a_schedule_is_added_changed_and_deleted(
        self, page: Page, lab: Lab, server: Server
    ) -> None:
        seen = Seen(page, server)
        sign_in(page, server)
        go(page, server, "/schedules")
        page.click("a:has-text('New schedule')")
        page.fill("[name=name]", "nightly run")
        page.fill("[name=rule]", "0 3 * * 1")
        page.fill("[name=tz]", "Mars")
        page.wait_for_selector(".field:has([name=tz]) .wrong:has-text('Mars')")
        assert not page.is_visible(".preview")
        page.fill("[name=tz]", "UTC")
        page.wait_for_selector(".preview:has-text('At 03:00 on Monday, UTC')")
        assert page.locator(".preview li").count() == 5
        page.fill("[name='job.command']", "backup.sh")
        page.click("button:has-text('Add')")
        page.wait_for_url(server.url + "/schedules/nightly%20run")
        page.click("a:has-text('Edit')")
        page.wait_for_selector(".preview:has-text('At 03:00 on Monday, UTC')")
        page.fill("[name=rule]", "every 15m")
        page.fill("[name='job.priority']", "4")
        page.click("button:has-text('Change')")
        page.wait_for_url(server.url + "/schedules/nightly%20run")
        found = lab.queue.schedules.get("nightly run")
        assert (found.rule, found.zone) == ("every 15m", "UTC")
        assert (found.request["command"], found.request["priority"]) == ("backup.sh", 4)
        page.click("button:has-text('Delete')")
        page.click("dialog button:has-text('Delete')")
        page.wait_for_url(server.url + "/schedules")
        assert lab.queue.schedules.all() == []
        assert all("400" in said for said in seen.complaints)

    def test_limits_are_set_and_taken_away_and_a_queue_is_renamed(
        self, page: Page, lab: Lab, server: Server
    ) -> None:
        limits = lab.queue.limits
        limits.set("mail", limit=3, weights={"vip": 5, "team=a": 2})
        seen = Seen(page, server)
        sign_in(page, server)
        go(page, server, "/queues/mail")
        page.click("a:has-text('Limits and name')")
        page.fill("[name=limit]", "")
        page.fill("[name=rates]", "100/1m, 5/1s")
        page.fill("[name=weights]", "team=a=4\nnew=3")
        page.click("button:has-text('Set')")
        page.wait_for_url(server.url + "/queues/mail")
        found = limits.get("mail")
        assert (found.limit, dict(found.weights)) == (None, {"team=a": 4, "new": 3})
        assert len(found.rates) == 2
        page.click("a:has-text('Limits and name')")
        page.fill("[name=to]", "letters")
        page.click("button:has-text('Rename')")
        page.wait_for_url(server.url + "/queues/letters")
        assert limits.get("letters") == found
        seen.check()

    def test_a_token_is_made_and_shown_once(self, page: Page, lab: Lab, server: Server) -> None:
        sign_in(page, server)
        go(page, server, "/access")
        page.fill("[name=name]", "ci")
        page.click("button:has-text('Make it')")
        page.wait_for_selector("fieldset[aria-invalid] + .wrong, fieldset[aria-invalid] ~ .wrong")
        page.check("[name=roles][value=submit]")
        page.fill("[name=queues]", "mail, reports")
        page.click("button:has-text('Make it')")
        secret = page.inner_text("dialog code")
        page.click("dialog button:has-text('I have it')")
        page.wait_for_selector("#tokens td:has-text('ci')")
        grant = lab.queue.access.known(secret, (Kind.TOKEN,))
        assert grant is not None
        assert ([*grant.roles], grant.queues) == ([Role.SUBMIT], ("mail", "reports"))
        go(page, server, "/access")
        assert secret not in page.content()
        page.click("#tokens button:has-text('Remove')")
        page.click("dialog button:has-text('Remove')")
        page.wait_for_selector("#tokens :text('There are no tokens.')")

    def test_a_webhook_is_added_tried_paused_and_removed(
        self, page: Page, lab: Lab, server: Server
    ) -> None:
        seen = Seen(page, server)
        sign_in(page, server)
        go(page, server, "/webhooks")
        page.fill("input[name=url]", "https://127.0.0.1/hook?key=a")
        page.fill("input[name=name]", "ops/1 ü")
        page.uncheck("input[value=dead]")
        page.click("button:has-text('Add')")
        # The box that helps is named as it is called there.
        box = "“It may be at an address that isn't public”"
        page.wait_for_selector(f'[aria-invalid] ~ .wrong:has-text("{box}")')
        page.check("input[name=allow_private]")
        page.click("button:has-text('Add')")
        page.wait_for_selector("fieldset[aria-invalid] ~ .wrong:has-text('Say what')")
        page.check("input[value=completed]")
        page.check("input[value=dead]")
        page.wait_for_selector("[aria-invalid]", state="detached")
        page.fill("input[name=queues]", "mail, other")
        page.click("button:has-text('Add')")
        secret = page.inner_text("dialog code")
        made = lab.queue.webhooks.get("ops/1 ü")
        assert (made.secret, made.news) == (secret, ("completed", "dead"))
        assert (made.queues, made.private, made.with_data) == (("mail", "other"), True, False)
        page.click("dialog button:has-text('Copy')")
        page.wait_for_selector("dialog button:text-is('Copied')")
        page.click("dialog button:has-text('I have it')")
        page.wait_for_selector("tr[data-row='ops/1 ü']")
        assert secret not in page.content()
        page.click("td button:has-text('Test')")
        page.wait_for_selector('.toast.bad:has-text("can\'t be reached")')
        page.click("td button:has-text('Pause')")
        page.click("td button:has-text('Resume')")
        page.wait_for_selector("td button:has-text('Pause')")
        page.click("td a")
        page.wait_for_selector("h1:has-text('ops/1 ü')")
        page.click("button:has-text('Remove')")
        page.click("dialog button:has-text('Remove')")
        page.wait_for_url(server.url + "/webhooks")
        assert lab.queue.webhooks.all() == []
        # A refusal is an answer that browsers write into their console.
        assert all("400" in said for said in seen.complaints)

    def test_who_may_only_look_sees_no_buttons(self, page: Page, lab: Lab, server: Server) -> None:
        lab.queue.enqueue("true", id="j")
        page.goto(server.url + "/sign-in")
        page.fill("#secret", lab.queue.access.add_token("eve", ["view"])[1])
        page.click("button.main")
        for path in ("/", "/jobs", "/jobs/j", "/queues"):
            go(page, server, path)
            assert page.locator("main button:visible").filter(has_not_text="Filter").count() == 0


def test_the_keyboard_is_enough(page: Page, lab: Lab, server: Server) -> None:
    for number in range(5):
        lab.queue.enqueue(f"echo {number}", id=f"k{number}")
    seen = Seen(page, server)
    sign_in(page, server)
    page.keyboard.press("/")
    page.wait_for_selector("#search:focus")
    page.keyboard.type("echo")
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: "text=echo" in url)
    page.wait_for_selector("#pulse.on", state="attached")
    for key in "jjjk":
        page.keyboard.press(key)
    assert page.get_attribute("tr.at", "data-row") == "k3"
    page.keyboard.press("?")
    page.wait_for_selector("dialog:has-text('next and previous row')")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="detached")
    page.keyboard.press("x")
    assert page.is_checked("input[value=k3]")
    page.keyboard.press("Enter")
    page.wait_for_url(server.url + "/jobs/k3")
    page.wait_for_selector("#pulse.on", state="attached")
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent.trim()") == "Hold":
            break
    page.keyboard.press("Enter")
    page.wait_for_selector("#head .tag:has-text('held')")
    page.keyboard.press("g")
    page.keyboard.press("q")
    page.wait_for_url(server.url + "/queues")
    seen.check()


def test_charts_are_read_by_keyboard_and_as_tables(page: Page, busy: Server) -> None:
    sign_in(page, busy)
    page.focus(".plot")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(".reading:has-text('completed')")
    last = page.inner_text(".reading")
    page.keyboard.press("ArrowLeft")
    assert page.inner_text(".reading") != last
    page.click(".numbers summary")
    assert page.locator(".chart >> nth=0 >> tbody tr:visible").count() == 60


def test_a_slip_in_the_name_of_a_queue_is_asked_about(page: Page, busy: Server) -> None:
    sign_in(page, busy)
    go(page, busy, "/jobs?queue=thumb")
    page.click("a:text-is('thumbs')")
    page.wait_for_url(lambda url: "queue=thumbs" in url)
    page.goto(f"{busy.url}/queues/thumb")
    assert "did you mean 'thumbs'?" in page.inner_text("main")


def test_colours_can_be_chosen_and_are_remembered(page: Page, busy: Server) -> None:
    sign_in(page, busy)
    paper = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(paper)
    page.keyboard.press("t")
    page.keyboard.press("t")
    dark = page.evaluate(paper)
    assert dark != light
    go(page, busy, "/jobs")
    assert page.evaluate(paper) == dark
    assert page.get_attribute("#theme", "aria-label") == "Colours: dark"


HIT = "<img src=x onerror=hit()><script>hit()</script>"
EVIL = f"\"'>{HIT}{{{{7*7}}}}"


def test_what_jobs_say_is_text_and_never_markup(page: Page, lab: Lab, server: Server) -> None:
    queue = lab.queue
    shout = f"cat <<'END'\n{EVIL}\nEND\ncat >&2 <<'END'\n{EVIL}\nEND\nexit 1 # {EVIL}"
    names = {"queue": f"q{EVIL}", "tags": [f"t{EVIL}"], "id": f"i{EVIL}", "keys": [f"k{EVIL}"]}
    queue.enqueue({"command": shout, "max_retries": 0, **names})
    queue.enqueue("true", id="c", queue=f"q{EVIL}", delay="1h")
    queue.cancel("c", reason=EVIL)
    queue.pause(f"q{EVIL}")
    queue.resume(f"q{EVIL}")
    queue.schedules.add("s", "0 3 * * *", f"echo {EVIL}")
    lab.node("--drain").wait(PATIENCE)
    assert queue.get(f"i{EVIL}").state == State.DEAD
    seen = Seen(page, server)
    hits: list[str] = []
    page.expose_function("hit", lambda: hits.append(page.url))
    page.on("dialog", lambda dialog: hits.append(dialog.message))
    sign_in(page, server)
    paths = ["/", "/jobs", "/dead", "/queues", "/events", "/schedules", "/schedules/s", "/jobs/c"]
    for path in paths:
        go(page, server, path)
        if path not in ("/", "/schedules", "/schedules/s"):
            assert EVIL in page.inner_text("main").replace("\n", " "), path
        assert page.locator("main img").count() == 0, path
    go(page, server, "/jobs")
    page.click("tr:has-text('exit 1') .what a")
    page.wait_for_selector("#output[data-ended]")
    assert page.inner_text("#terminal pre.stdout").strip() == EVIL
    assert page.inner_text("#terminal pre.stderr").strip() == EVIL
    assert page.locator("main img, main script").count() == 0
    page.click("p.sub a >> nth=1")
    page.wait_for_selector("#tiles")
    assert page.inner_text("h1") == f"q{EVIL}"
    assert "49" not in page.inner_text("h1")
    go(page, server, f"/jobs?text={'%22%3E%3Cscript%3Ehit()%3C/script%3E'}")
    assert page.input_value("#search") == '"><script>hit()</script>'
    assert hits == []
    seen.check()

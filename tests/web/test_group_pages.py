"""Groups, sweeps and results in a real browser, and what these pages ask of the store."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page

from queuectl import State
from queuectl.access import Role
from tests.support import PATIENCE, Lab, wait_for
from tests.web.browser import Seen, chromium, go, open_page, sign_in
from tests.web.conftest import Client, Server

EVIL = "a/b #1?x=%41 <script>alert(1)</script> ü🎈 'q' \"p\""
SHOWN = "<script>document.title = 'taken'</script>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A browser window of its own."""
    found = open_page(browser, viewport={"width": 1280, "height": 900})
    try:
        yield found
    finally:
        found.context.close()


def of(name: str, more: str = "") -> str:
    return f"/groups/{quote(name, safe='')}{more}"


def run_all(lab: Lab) -> None:
    """Run what can be run."""
    lab.node("--drain").wait(PATIENCE)


def tell(lab: Lab, name: str, results: list[Any], **more: Any) -> None:
    """Have a group of which each job comes to one of these results; None has it die."""
    made = []
    for at, result in enumerate(results, 1):
        file = lab.folder / f"result-{at}"
        file.write_text(json.dumps(result))
        command = "exit 3" if result is None else f'cat {file} > "$QUEUECTL_RESULT"'
        made.append({"command": command, "id": f"job-{at}", "parameters": {"index": at, **more}})
    lab.queue.enqueue_many(made, group=name, max_retries=0)
    run_all(lab)


class TestGroups:
    def test_they_are_listed_with_signs_and_found_by_how_they_begin(
        self, page: Page, lab: Lab, server: Server
    ) -> None:
        lab.queue.enqueue_many(["true", "exit 3"], group=EVIL, max_retries=0)
        run_all(lab)
        lab.queue.enqueue_many(["true"] * 3, group="night")
        seen = Seen(page, server)
        sign_in(page, server)
        page.click("nav >> text=Groups")
        rows = page.locator("tbody tr")
        page.wait_for_selector("#pulse.on", state="attached")
        assert rows.count() == 2
        assert "night" in rows.first.inner_text()
        last = rows.last
        for text in ("dead", EVIL, "✓", "1 completed", "✗", "1 dead", "2 of 2"):
            assert text in last.inner_text()
        label = last.locator("svg.parts").get_attribute("aria-label")
        assert label == f"Jobs of {EVIL}: 1 completed, 1 dead"
        assert last.locator("svg.parts rect.hatched").count() == 1
        page.fill("#search", "a/b")
        page.keyboard.press("Enter")
        page.wait_for_selector("tbody tr")
        assert rows.count() == 1
        page.keyboard.press("Escape")
        page.locator("tbody .what a").click()
        page.wait_for_selector("h1")
        assert page.inner_text("h1") == EVIL
        seen.check()

    def test_very_many_come_page_by_page(self, page: Page, lab: Lab, server: Server) -> None:
        for number in range(101):
            lab.queue.enqueue("true", group=f"g {number:03}")
        sign_in(page, server)
        go(page, server, "/groups")
        names: list[str] = []
        while True:
            names += page.locator("tbody .what a").all_inner_texts()
            if not page.locator("a[rel=next]").count():
                break
            page.click("a[rel=next]")
            page.wait_for_load_state()
        assert names == [f"g {number:03}" for number in reversed(range(101))]
        page.goto(server.url + "/groups?prefix=g%200")
        assert page.locator("tbody tr").count() == 50
        assert "write more of the name" in page.inner_text("#list")

    def test_what_happens_is_seen_without_reloading(
        self, page: Page, lab: Lab, server: Server
    ) -> None:
        lab.queue.enqueue_many(["true"] * 3, group="night")
        seen = Seen(page, server)
        sign_in(page, server)
        go(page, server, "/groups/night")
        assert "3 waiting" in page.inner_text("#progress")
        page.evaluate("window.same = true")
        run_all(lab)
        page.wait_for_selector("#progress:has-text('3 completed')")
        page.wait_for_selector("#head .state.completed")
        assert page.evaluate("window.same")
        seen.check()

    def test_a_row_is_opened_by_keys(self, page: Page, lab: Lab, server: Server) -> None:
        lab.queue.enqueue("true", group="first")
        lab.queue.enqueue("true", group="second")
        sign_in(page, server)
        page.keyboard.press("g")
        page.keyboard.press("g")
        page.wait_for_selector("h1:has-text('Groups')")
        page.keyboard.press("j")
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        page.wait_for_selector("h1:has-text('first')")


class TestOneGroup:
    @pytest.fixture
    def stuck(self, lab: Lab) -> str:
        """A group that waits in vain: of what is dead, and in which others wait for it."""
        queue = lab.queue
        queue.enqueue(f"echo {SHOWN!r} >&2; exit 3", id="extract", group=EVIL, max_retries=0)
        for number in range(3):
            queue.enqueue("true", id=f"load-{number}", group=EVIL, after="extract")
        queue.enqueue("true", id="report", after="load-1")
        queue.enqueue("true", id="next", after_group=EVIL)
        queue.groups.on_done(EVIL, "true", id="last")
        run_all(lab)
        return EVIL

    def test_it_says_what_is_dead_and_what_that_keeps(
        self, page: Page, server: Server, stuck: str
    ) -> None:
        seen = Seen(page, server)
        sign_in(page, server)
        go(page, server, of(stuck))
        assert page.title() == f"Group {stuck} · queuectl"
        assert "1 of 4 jobs done, stuck: what is left waits" in page.inner_text("#head")
        assert page.locator("#progress .counts li").all_inner_texts() == ["✗1 dead", "‖3 blocked"]
        dead = page.locator("section:has(> h2:text-is('Dead')) tbody tr")
        assert dead.count() == 1
        assert "exit code 3" in dead.inner_text()
        kept = page.locator("section:has(> h2:text-is('What keeps the blocked ones')) li")
        assert [text.split()[:4] for text in kept.all_inner_texts()] == [
            ["extract", "dead", "root", "cause"]
        ]
        waiting = page.locator("section:has(> h2:text-is('What waits for it')) li")
        assert [text.split()[0] for text in waiting.all_inner_texts()] == ["next"]
        fields = page.inner_text("dl.fields")
        for text in ("not yet", "last", "no number of dead jobs"):
            assert text in fields
        page.click("nav.views >> text=Graph")
        page.wait_for_selector("#drawing")
        assert page.locator("#drawing [data-part]").count() > 0
        page.locator("main p.sub a").last.click()
        page.click("a:has-text('3 blocked')")
        page.wait_for_selector("h1:has-text('Jobs')")
        assert page.locator("tbody tr").count() == 3
        assert page.input_value("input[name=group]") == stuck
        seen.check()

    def test_cancelling_it_says_what_goes_with_it(
        self, page: Page, lab: Lab, server: Server, stuck: str
    ) -> None:
        seen = Seen(page, server)
        sign_in(page, server)
        go(page, server, of(stuck))
        page.click("#head button:has-text('Cancel')")
        page.wait_for_selector("dialog:has-text('This hits 3 jobs.')")
        page.wait_for_selector("dialog:has-text('1 other job waits for that'):has-text('report')")
        page.click("dialog button:has-text('Keep them')")
        assert lab.queue.get("load-0").state == State.BLOCKED
        page.click("#head button:has-text('Cancel')")
        page.click("dialog button:has-text('Cancel 3 jobs')")
        page.wait_for_selector(".toast:has-text('3 jobs cancelled')")
        gone = {job.id for job in lab.queue.list(state="cancelled")}
        assert gone == {"load-0", "load-1", "load-2", "report"}
        page.wait_for_selector("#progress:has-text('3 cancelled')")
        who = {event.who for event in lab.queue.events(limit=3)}
        assert all(one.startswith("ann (web)") for one in who)
        page.click(".toast button:has-text('Undo')")
        wait_for(lambda: lab.queue.get("load-0").state == State.BLOCKED, "all as it was")
        seen.check()

    def test_repairing_it_is_about_what_is_dead(
        self, page: Page, lab: Lab, server: Server, stuck: str
    ) -> None:
        lab.queue.edit("load-0", delay="1h")
        seen = Seen(page, server)
        sign_in(page, server)
        go(page, server, of(stuck))
        page.click("#head button:has-text('Retry what is dead')")
        page.wait_for_selector("dialog:has-text('goes on by itself')")
        page.click("dialog button:has-text('Retry 1 job')")
        page.wait_for_selector(".toast:has-text('1 job back in line')")
        assert lab.queue.get("extract").state == State.PENDING
        page.wait_for_selector("#head:not(:has-text('Retry what is dead'))")
        seen.check()

    def test_a_root_cause_that_is_in_no_group_is_repaired_from_it(
        self, page: Page, lab: Lab, server: Server
    ) -> None:
        lab.queue.enqueue("exit 3", id="elsewhere", max_retries=0)
        lab.queue.enqueue("true", id="kept", group="g", after="elsewhere")
        run_all(lab)
        sign_in(page, server)
        go(page, server, "/groups/g")
        assert "Retry what is dead" not in page.inner_text("#head")
        page.click("button:has-text('Retry elsewhere')")
        wait_for(lambda: lab.queue.get("elsewhere").state == State.PENDING, "it is in line")

    def test_one_that_was_stopped_says_so(self, page: Page, lab: Lab, server: Server) -> None:
        lab.queue.enqueue_many(["exit 3"] * 2, group="g", max_fails=2, max_retries=0)
        lab.queue.enqueue("true", group="g", delay="1h")
        run_all(lab)
        sign_in(page, server)
        go(page, server, "/groups/g")
        assert "as 2 of its jobs were dead" in page.inner_text("#head .note.bad")
        assert "2 dead jobs" in page.inner_text("dl.fields")
        go(page, server, "/groups")
        assert "stopped" in page.inner_text("tbody tr")

    def test_who_only_looks_is_given_no_buttons(
        self, browser: Browser, server: Server, stuck: str
    ) -> None:
        client = Client(server.port, server.client(Role.VIEW).headers, "")
        told = client.get(of(stuck)).body.decode()
        assert "data-group=" not in told
        assert "Results as CSV" in told
        assert SHOWN not in told
        assert "<script>alert" not in told

    def test_it_is_all_there_without_javascript(
        self, browser: Browser, lab: Lab, server: Server, stuck: str
    ) -> None:
        page = open_page(browser, java_script_enabled=False)
        _, token = lab.queue.access.add_token("bot", ["view"])
        page.goto(f"{server.url}/sign-in?to={quote(of(stuck), safe='')}")
        page.fill("#secret", token)
        page.click("button.main")
        assert page.inner_text("h1") == stuck
        assert "3 blocked" in page.inner_text("#progress")
        page.click("text=Results >> nth=0")
        assert page.locator("tbody tr").count() == 4
        page.click("th a:has-text('State')")
        shown = page.locator("tbody tr td:has(.state)").all_inner_texts()
        assert shown == sorted(shown)
        page.context.close()


class TestResults:
    def test_fields_of_results_are_columns_and_sorted_by(
        self, page: Page, lab: Lab, server: Server
    ) -> None:
        losses = [0.5, 10, None, 2.25]
        told = [one and {"loss": one, "name": SHOWN, "at": [1, {"b": None}]} for one in losses]
        tell(lab, EVIL, told, lr=SHOWN)
        seen = Seen(page, server)
        sign_in(page, server)
        go(page, server, of(EVIL, "/results"))
        heads = [text.strip() for text in page.locator("thead th").all_inner_texts()]
        assert heads == "Job index lr State Exit Took Memory loss name at".split()
        first = page.locator("tbody tr").first.locator("td").all_inner_texts()
        assert first[:4] == ["job-1", "1", SHOWN, "completed"]
        assert first[-3:] == ["0.5", SHOWN, '[1, {"b": null}]']
        assert page.title() != "taken"
        for how, wanted in (
            ("ascending", ["job-1", "job-4", "job-2", "job-3"]),
            ("descending", ["job-2", "job-4", "job-1", "job-3"]),
        ):
            page.click("th a:has-text('loss')")
            page.wait_for_selector(f"th[aria-sort={how}]")
            assert ids(page) == wanted
        seen.check()

    def test_a_dead_row_says_why_and_a_field_that_is_a_parameter_is_one_column(
        self, page: Page, lab: Lab, server: Server
    ) -> None:
        tell(lab, "g", [{"lr": 0.1, "loss": 2}, None], lr="0.10")
        sign_in(page, server)
        go(page, server, of("g", "/results"))
        heads = [text.strip() for text in page.locator("thead th").all_inner_texts()]
        assert heads == "Job index lr State Exit Took Memory loss".split()
        assert "exit code 3" in cells(page)[1]
        assert page.locator("tbody tr").nth(1).locator("td").nth(4).inner_text() == "3"
        lab.queue.remove("job-1")
        tell(lab, "h", [{"lr": 7, "loss": 2}], lr="0.10")
        go(page, server, of("h", "/results"))
        heads = [text.strip() for text in page.locator("thead th").all_inner_texts()]
        assert heads[-2:] == ["result.lr", "loss"]

    def test_results_that_are_no_objects_are_one_column(
        self, page: Page, lab: Lab, server: Server
    ) -> None:
        tell(lab, "g", [7, "text", {"a": 1}])
        sign_in(page, server)
        go(page, server, of("g", "/results?sort=-result"))
        assert page.locator("thead th").last.inner_text().strip("▼ ") == "Result"
        assert [row.split("\t")[-1].strip() for row in cells(page)] == ['{"a": 1}', "text", "7"]

    def test_they_come_page_by_page_in_any_order(
        self, page: Page, lab: Lab, server: Server
    ) -> None:
        many = 120
        lab.queue.enqueue_many(
            [
                {"id": f"j{n}", "command": "true", "parameters": {"n": f"{n * 7 % many}"}}
                for n in range(many)
            ],
            group="g",
        )
        sign_in(page, server)
        for query, wanted in (
            ("", [f"j{n}" for n in range(many)]),
            ("?sort=parameter.n", sorted((f"j{n}" for n in range(many)), key=place)),
        ):
            go(page, server, of("g", f"/results{query}"))
            found: list[str] = []
            while True:
                found += ids(page)
                if not page.locator("a[rel=next]").count():
                    break
                page.click("a[rel=next]")
                page.wait_for_load_state()
            assert found == wanted

    def test_they_are_saved_as_csv_and_json(self, page: Page, lab: Lab, server: Server) -> None:
        tell(lab, EVIL, [{"loss": 1}, None], lr="=1+1")
        sign_in(page, server)
        go(page, server, of(EVIL))
        with page.expect_download() as saved:
            page.click("text=Results as CSV")
        assert saved.value.suggested_filename.endswith(".csv")
        text = Path(saved.value.path()).read_text()
        rows = [*csv.reader(text.splitlines())]
        assert [row[:4] for row in rows[1:]] == [
            ["job-1", "1", "=1+1", "completed"],
            ["job-2", "2", "=1+1", "dead"],
        ]
        assert rows[1][-1] == '{"loss": 1}'
        with page.expect_download() as saved:
            page.click("text=Results as JSON")
        lines = [json.loads(line) for line in Path(saved.value.path()).read_text().splitlines()]
        assert [line["result"] for line in lines] == [{"loss": 1}, None]

    def test_a_job_of_another_group_is_no_place_to_go_on(self, lab: Lab, server: Server) -> None:
        lab.queue.enqueue("true", id="mine", group="g")
        lab.queue.enqueue("true", id="other", group="h")
        client = Client(server.port, server.client(Role.VIEW).headers, "")
        for query in ("after=other", "after=other&sort=state"):
            assert client.get(f"/groups/g/results?{query}").status == 404
        assert client.get("/groups/g/results?after=mine").status == 200


def place(id: str) -> int:
    return int(id[1:]) * 7 % 120


def ids(page: Page) -> list[str]:
    return page.locator("tbody tr td.name").all_inner_texts()


def cells(page: Page) -> list[str]:
    return page.locator("tbody tr").all_inner_texts()


class TestElsewhere:
    def test_a_job_and_its_row_say_in_which_group_it_is(
        self, page: Page, lab: Lab, server: Server
    ) -> None:
        lab.queue.enqueue("true", id="one", group=EVIL, parameters={"lr": SHOWN})
        lab.queue.enqueue("true", id="other")
        seen = Seen(page, server)
        sign_in(page, server)
        go(page, server, "/jobs")
        page.fill("input[name=group]", EVIL)
        page.keyboard.press("Enter")
        page.wait_for_selector("h1:has-text('Jobs')")
        wait_for(lambda: page.locator("tbody tr").count() == 1, "one job")
        page.click("tbody tr .what a >> nth=0")
        page.wait_for_selector("#fields")
        assert f"lr={SHOWN}" in page.inner_text("#fields")
        page.locator("#fields a[href*='/groups/']").click()
        page.wait_for_selector("#progress")
        assert page.inner_text("h1") == EVIL
        seen.check()

    def test_who_is_let_in_for_some_queues_sees_a_group_by_its_jobs_only(
        self, browser: Browser, lab: Lab, server: Server
    ) -> None:
        lab.queue.enqueue("true", id="mine", queue="mine", group="shared")
        lab.queue.enqueue("true", id="hidden", queue="theirs", group="shared")
        page = open_page(browser)
        _, token = lab.queue.access.add_token("guest", list(Role), queues=("mine",))
        page.goto(server.url + "/sign-in")
        page.fill("#secret", token)
        page.click("button.main")
        page.wait_for_selector("h1:has-text('Overview')")
        assert page.locator("nav a:has-text('Groups')").count() == 0
        go(page, server, "/jobs/mine")
        page.click("#fields a:has-text('shared')")
        page.wait_for_selector("h1:has-text('Jobs')")
        assert page.locator("tbody tr").count() == 1
        assert "hidden" not in page.inner_text("main")
        for path in ("/groups", "/groups/shared", "/groups/shared/results"):
            reply = page.goto(server.url + path)
            assert reply is not None
            assert reply.status == 403
            assert "hidden" not in page.inner_text("main")
        page.context.close()

    def test_nodes_show_what_is_in_use_and_who_has_which_device(
        self, page: Page, lab: Lab, server: Server
    ) -> None:
        lab.queue.enqueue("sleep 600", id="trains", needs="gpu=1,cpu=2")
        lab.node("--resources", "cpu=8,gpu=2", count=2)
        lab.wait_state("trains", State.PROCESSING)
        seen = Seen(page, server)
        sign_in(page, server)
        go(page, server, "/nodes")
        labels = page.locator(".resources svg").evaluate_all(
            "all => all.map(one => one.getAttribute('aria-label'))"
        )
        assert labels == ["2 of 8 cpu in use", "1 of 2 gpu in use"]
        devices = [text.split() for text in page.locator(".devices li").all_inner_texts()]
        assert devices == [["gpu", "0", "sleep", "600", "taken"], ["gpu", "1", "free"]]
        page.click(".devices a")
        page.wait_for_selector("h1:has-text('sleep 600')")
        seen.check()

"""Graphs in a real browser: what is drawn, how it is followed, and what can be done from there."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from queuectl import State
from tests.support import Lab, wait_for
from tests.web.browser import Seen, chromium, go, open_page, sign_in
from tests.web.conftest import Server

WIDE = {"width": 1280, "height": 900}
PHONE = {"width": 360, "height": 740}
HIT = "\"'><img src=x onerror=hit()><script>hit()</script>{{7*7}}"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    found = open_page(browser, viewport=WIDE)
    try:
        yield found
    finally:
        found.context.close()


def box(id: str) -> str:
    """Return how the box of a job is found."""
    return f".drawing .box:has(.ident:text-is('{id}'))"


def stuck(lab: Lab) -> None:
    """Enqueue jobs of which one dies as long as nobody mends it, and others wait for it."""
    common = {"max_retries": 0, "cwd": str(lab.folder)}
    lab.queue.enqueue_many(
        [
            {**common, "id": "fetch", "command": "true"},
            {**common, "id": "merge", "command": "test -e mended", "after": "fetch"},
            {**common, "id": "report", "command": "true", "after": "merge"},
            {**common, "id": "mail", "command": "true", "after": "report"},
        ]
    )
    lab.wait_state("merge", State.DEAD)


def test_from_a_blocked_job_over_its_graph_to_its_repair(
    page: Page, lab: Lab, server: Server
) -> None:
    lab.node()
    stuck(lab)
    seen = Seen(page, server)
    sign_in(page, server)
    go(page, server, "/jobs/mail")
    assert "merge is dead" in page.inner_text("#head")
    assert page.is_visible("#head .repair a:text-is('merge')")
    page.click("#relatives a:text-is('Graph')")
    page.wait_for_selector("h1:has-text('Graph of mail')")
    assert page.text_content(f"{box('merge')} .mark") == "root cause"
    assert page.text_content(f"{box('mail')} .mark") == "this job"
    assert page.locator(".tie.way").count() == 2
    wide = "one => parseFloat(getComputedStyle(one).strokeWidth)"
    way = page.locator(".tie.way path").first.evaluate(wide)
    assert way > 2 * page.locator(".tie.met path").first.evaluate(wide)
    page.wait_for_selector("#pulse.on", state="attached")
    (lab.folder / "mended").touch()
    page.click("button:has-text('Retry merge')")
    page.wait_for_selector(".toast:has-text('back in line')")
    for id in ("merge", "report", "mail"):
        page.wait_for_selector(f"{box(id)}.completed")
        page.wait_for_selector(f"#tree li:has(a:text-is('{id}')) .state.completed")
    assert page.locator(".tie.way, .drawing .root, #said .note").count() == 0
    assert page.inner_text("#said").split() == ["4", "completed"]
    page.click(f"{box('merge')} a")
    page.wait_for_url(server.url + "/jobs/merge")
    seen.check()


def test_only_what_has_changed_is_drawn_anew(page: Page, lab: Lab, server: Server) -> None:
    lab.queue.enqueue("true", id="a")
    lab.queue.enqueue("true", id="b", after="a")
    lab.queue.enqueue("true", id="c", after="b")
    sign_in(page, server)
    go(page, server, "/jobs/a/graph")
    page.evaluate("window.svg = document.querySelector('.drawing svg')")
    page.locator(box("c")).evaluate("one => { window.last = one; }")
    page.focus(f"{box('a')} a")
    lab.node()
    page.wait_for_selector(f"{box('c')}.completed")
    assert page.evaluate("window.svg.isConnected")
    assert not page.evaluate("window.last.isConnected")
    assert page.evaluate("document.activeElement.querySelector('.ident').textContent") == "a"
    # Another job makes another drawing.
    page.locator(box("c")).evaluate("one => { window.last = one; }")
    lab.queue.enqueue("true", id="d", after="a")
    page.wait_for_selector(box("d"))
    assert not page.evaluate("window.svg.isConnected")


def test_what_has_not_changed_stays(page: Page, lab: Lab, server: Server) -> None:
    lab.queue.enqueue_many(
        {"id": id, "command": "true", "after": after, "delay": "1h"}
        for id, after in (("a", []), ("b", ["a"]), ("c", ["a"]))
    )
    sign_in(page, server)
    go(page, server, "/jobs/a/graph")
    page.locator(box("b")).evaluate("one => { window.stays = one; }")
    page.locator(box("c")).evaluate("one => { window.goes = one; }")
    lab.queue.cancel("c")
    page.wait_for_selector(f"{box('c')}.cancelled")
    assert page.evaluate("[window.stays.isConnected, window.goes.isConnected]") == [True, False]


def test_the_keyboard_goes_from_job_to_job(page: Page, lab: Lab, server: Server) -> None:
    for id, after in (("a", []), ("b", ["a"]), ("c", ["b"])):
        lab.queue.enqueue("true", id=id, after=after)
    seen = Seen(page, server)
    sign_in(page, server)
    go(page, server, "/jobs/a/graph")
    for key in "jj":
        page.keyboard.press(key)
    assert page.text_content(".drawing .at .ident") == "b"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.querySelector('.ident').textContent") == "c"
    page.keyboard.press("Enter")
    page.wait_for_url(server.url + "/jobs/c")
    seen.check()


def test_a_screen_reader_is_told_all_of_it(page: Page, lab: Lab, server: Server) -> None:
    lab.node()
    stuck(lab)
    sign_in(page, server)
    go(page, server, "/jobs/mail/graph")
    said = re.compile(r"^merge: dead \(exit code 1.*\)\. test -e mended Root cause: others wait")
    assert page.get_by_role("link", name=said).count() == 1
    assert page.get_by_role("group", name="Graph of mail").count() == 1
    told = page.locator("#tree").aria_snapshot()
    assert "Level 3" in told
    assert "blocked" in told


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_it_is_drawn_without_javascript_on_a_phone(
    browser: Browser, lab: Lab, server: Server, colours: str
) -> None:
    lab.node()
    stuck(lab)
    page = open_page(browser, java_script_enabled=False, viewport=PHONE, color_scheme=colours)
    _, token = lab.queue.access.add_token(f"nojs-{colours}", ["admin"])
    page.goto(server.url + "/sign-in")
    page.fill("#secret", token)
    page.click("button.main")
    page.goto(server.url + "/jobs/mail")
    assert page.is_visible("text=queuectl --db")
    page.click("#relatives a:text-is('Graph')")
    assert page.locator(".drawing .box").count() == 4
    assert page.locator("main button:visible").count() == 0
    card = page.locator(".drawn").bounding_box()
    assert card is not None
    assert card["x"] + card["width"] <= PHONE["width"]
    page.click("#tree a:text-is('merge')")
    assert page.url == server.url + "/jobs/merge"
    page.context.close()


def test_a_large_graph_opens_where_its_job_is(page: Page, lab: Lab, server: Server) -> None:
    lab.queue.enqueue_many(
        {"id": f"n{at}", "command": "true", "after": [f"n{at - 1}"] if at else []}
        for at in range(1_000)
    )
    names = [f"k{at}" for at in range(500)]
    lab.queue.enqueue_many(
        [
            {"id": "r", "command": "true"},
            *({"id": name, "command": "true", "after": "r"} for name in names),
            {"id": "end", "command": "true", "after": names},
        ]
    )
    seen = Seen(page, server)
    sign_in(page, server)
    for id, boxes in (("n700", 1_000), ("end", 502)):
        go(page, server, f"/jobs/{id}/graph?fold=false")
        assert page.locator(".drawing .box").count() == boxes
        here = page.locator(".drawing .here rect").bounding_box()
        assert here is not None
        assert 0 <= here["x"] <= WIDE["width"] - here["width"]
        assert 0 <= here["y"] <= WIDE["height"] - here["height"]
        page.click("a:has-text('Draw jobs that are alike as one')")
        page.wait_for_selector("a:has-text('Draw each job by itself')")
        assert page.locator(".drawing .box").count() <= 5
    seen.check()


def test_the_graph_of_a_group_opens_at_a_root_cause_or_where_it_begins(
    page: Page, lab: Lab, server: Server
) -> None:
    names = [f"k{at}" for at in range(60)]
    common = {"group": "g", "max_retries": 0}
    lab.queue.enqueue_many(
        [
            {**common, "id": "r", "command": "true"},
            *({**common, "id": name, "command": "true", "after": "r"} for name in names),
            {**common, "id": "bad", "command": "exit 1", "after": names},
            {**common, "id": "end", "command": "true", "after": "bad"},
        ]
    )
    sign_in(page, server)

    def is_seen(id: str) -> bool:
        place = page.locator(box(id)).bounding_box()
        assert place is not None
        is_across = 0 <= place["x"] <= WIDE["width"] - place["width"]
        return is_across and 0 <= place["y"] <= WIDE["height"] - place["height"]

    go(page, server, "/groups/g")
    page.click("a:text-is('Graph')")
    page.click("a:has-text('Draw each job by itself')")
    page.wait_for_url(lambda url: url.endswith("/groups/g/graph?fold=false"))
    assert is_seen("r")
    lab.node("--drain", count=4).wait(60)
    go(page, server, "/groups/g/graph?fold=false")
    assert is_seen("bad")
    assert page.inner_text(".head .end a >> nth=0") == "Root cause"


def test_what_jobs_are_called_is_text_and_never_markup(
    page: Page, lab: Lab, server: Server
) -> None:
    odd = f"i{HIT}"
    lab.queue.enqueue(f"exit 1 # {HIT}", id=odd, max_retries=0, group=f"g{HIT}", queue=f"q{HIT}")
    lab.queue.enqueue(f"echo {HIT}", id="child", after=f"{odd}:ok", group=f"g{HIT}")
    lab.node()
    lab.wait_state(odd, State.DEAD)
    seen = Seen(page, server)
    hits: list[str] = []
    page.expose_function("hit", lambda: hits.append(page.url))
    sign_in(page, server)
    for path in ("/jobs/child", "/jobs/child/graph", "/jobs/child/relatives"):
        go(page, server, path)
        assert page.locator("main img, main script").count() == 0, path
        assert "49" not in page.inner_text("main"), path
    go(page, server, "/jobs/child/graph")
    page.locator(".drawing .root a").click()
    page.wait_for_selector("#output[data-ended]")
    page.click("#relatives .more >> nth=0")
    page.wait_for_selector(f"{box('child')}")
    page.click("#said button:has-text('Retry')")
    wait_for(lambda: len(lab.queue.attempts(odd)) == 2, "another run")
    assert hits == []
    seen.check()


def test_a_job_that_waits_for_others_is_made_by_the_form(
    page: Page, lab: Lab, server: Server
) -> None:
    lab.queue.enqueue("true", id="first", delay="1h")
    seen = Seen(page, server)
    sign_in(page, server)
    go(page, server, "/new/job")
    page.fill("[name=command]", "echo second")
    page.fill("[name=queue]", "default")
    page.click("summary:has-text('What it waits for')")
    page.fill("[name=after]", "first:any")
    page.select_option("[name=if_parent_fails]", "cancel")
    page.click("summary:has-text('What it belongs to')")
    page.fill("[name=group]", "night")
    page.click("button:has-text('Enqueue')")
    page.wait_for_selector("#relatives tr[data-row=first] .state.pending")
    made = lab.queue.get(page.url.rpartition("/")[2])
    assert (made.state, made.group, made.after) == (State.BLOCKED, "night", ("first:any",))
    assert "end, however" in page.inner_text("#relatives")
    page.click("#relatives tr[data-row=first] a")
    page.wait_for_selector(f"#relatives tr[data-row='{made.id}'] .state.blocked")
    seen.check()


def test_several_root_causes_are_retried_by_one_click(page: Page, lab: Lab, server: Server) -> None:
    ids = [f"bad{at}" for at in range(6)]
    lab.queue.enqueue_many({"id": id, "command": "exit 1", "max_retries": 0} for id in ids)
    lab.queue.enqueue("exit 1", id="member", group="g", max_retries=0)
    lab.queue.enqueue("true", id="z", after=ids, after_group="g")
    node = lab.node("--drain", count=4)
    node.wait(60)
    sign_in(page, server)
    go(page, server, "/jobs/z")
    page.click("#head button:has-text('Retry 6 jobs')")
    page.click("dialog button:has-text('Retry 6 jobs')")
    page.wait_for_selector(".toast:has-text('6 jobs back in line.')")
    assert {lab.queue.get(id).state for id in ids} == {State.PENDING}
    page.click("button:has-text('Retry group g')")
    page.click("dialog button:has-text('Retry 1 job')")
    wait_for(lambda: lab.queue.get("member").state == State.PENDING, "the job of the group")

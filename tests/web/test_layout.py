"""What is cut off on a screen of 1280 pixels, as many have it."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from queuectl.job import State
from tests.support import Lab, wait_for
from tests.web.browser import chromium, open_page, sign_in
from tests.web.conftest import Server

WIDE = {"width": 1280, "height": 900}
SHADE = "getComputedStyle(document.querySelector('.drawn'), '::after').opacity"
CUT = """all => all.filter(one => one.scrollWidth > one.clientWidth).map(
  one => `${one.getAttribute("aria-label")}: ${one.scrollWidth} in ${one.clientWidth}`)"""
TIGHT = """all => all.flatMap(one => {
  const copy = one.cloneNode(true);
  copy.style.cssText = "width: auto; max-width: none; position: absolute";
  one.parentElement.append(copy);
  const [first] = copy.options;
  copy.replaceChildren(first);
  const wanted = copy.offsetWidth;
  copy.remove();
  return one.offsetWidth < wanted ? [`${one.name}: ${one.offsetWidth} of ${wanted}`] : [];
})"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start a browser for all tests here."""
    with chromium() as found:
        yield found


@pytest.fixture
def page(browser: Browser, server: Server) -> Iterator[Page]:
    """Open a page of a usual size, signed in."""
    found = open_page(browser, viewport=WIDE)
    sign_in(found, server)
    yield found
    found.context.close()


def test_attempts_with_both_outputs_fit(page: Page, lab: Lab, server: Server) -> None:
    lab.queue.enqueue("echo to stdout; echo to stderr >&2; exit 3", id="both", max_retries=0)
    lab.node()
    lab.wait_state("both", State.DEAD)
    page.goto(server.url + "/jobs/both")
    assert "stderr 10 B" in page.inner_text("td.streams")
    assert page.locator("#left .scroll").evaluate_all(CUT) == []


def test_selects_show_what_is_chosen(page: Page, server: Server) -> None:
    page.goto(server.url + "/jobs")
    assert page.locator(".filters select").count() == 3
    assert page.locator(".filters select").evaluate_all(TIGHT) == []


def test_bars_of_resources_stand_in_one_line(page: Page, lab: Lab, server: Server) -> None:
    lab.node("--resources", "cpu=8,license=2,interconnect=1")
    page.goto(server.url + "/nodes")
    places = page.locator(".resources svg.use").evaluate_all(
        "all => all.map(one => one.getBoundingClientRect().left)"
    )
    assert len(places) == 3
    assert len(set(places)) == 1


def test_a_graph_that_goes_on_at_the_side_says_so(page: Page, lab: Lab, server: Server) -> None:
    for number in range(7):
        after = [f"stage-{number - 1}"] if number else []
        lab.queue.enqueue(f"run {number}", id=f"stage-{number}", after=after, group="long")
    page.goto(server.url + "/groups/long/graph")
    is_cut = "(one => one.scrollWidth > one.clientWidth)(document.querySelector('.drawn'))"
    page.click("text=Draw each job by itself")
    page.wait_for_selector("#drawing svg")
    page.wait_for_selector("text=Draw jobs that are alike as one")
    assert page.evaluate(is_cut)
    assert page.evaluate(SHADE) == "1"
    page.evaluate("document.querySelector('.drawn').scrollLeft = 1e6")
    wait_for(lambda: page.evaluate(SHADE) == "0", "the shade to be gone")
    lab.queue.enqueue("true", id="short", group="short")
    page.goto(server.url + "/groups/short/graph")
    assert not page.evaluate(is_cut)
    assert page.evaluate(SHADE) == "0"

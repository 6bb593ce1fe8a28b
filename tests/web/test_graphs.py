"""Graphs on the pages and in the API: what is drawn, in which words, and for whom."""

import re
from html import unescape

import pytest

from queuectl import State
from queuectl.access import Role
from tests.support import Lab
from tests.web.conftest import ALL, API, Client, Server

ODD = "<script>alert(1)</script>\"'&"


@pytest.fixture
def pages(server: Server) -> Client:
    """Somebody who may do everything, and asks for pages."""
    client = server.client(*ALL)
    client.base = ""
    return client


def shown(client: Client, path: str) -> str:
    reply = client.get(path)
    assert reply.status == 200, reply.body[:300]
    return reply.body.decode()


def boxes(page: str) -> list[str]:
    """Return what is in the boxes that are drawn, as text."""
    found = re.findall(r'<g data-part data-row="b\d+".*?</g>', page, re.DOTALL)
    texts = (re.sub(r"<title>.*?</title>", "", one) for one in found)
    return [" ".join(unescape(re.sub(r"<[^>]*>", " ", one)).split()) for one in texts]


def stuck(lab: Lab) -> None:
    """Enqueue jobs of which one dies, and others wait for it in vain."""
    lab.queue.enqueue_many(
        [
            {"id": "fetch", "command": "true", "group": "night"},
            {
                "id": "merge",
                "command": "exit 3",
                "max_retries": 0,
                "after": "fetch",
                "group": "night",
            },
            {"id": "report", "command": "true", "after": "merge", "group": "night"},
            {"id": "mail", "command": "true", "after": "report", "group": "night"},
            {"id": "clean", "command": "true", "after": "merge:any", "group": "night"},
        ]
    )
    lab.node()
    lab.wait_state("clean", State.COMPLETED)


class TestApi:
    def test_what_waits_in_vain_is_told_with_its_root_cause(self, lab: Lab, server: Server) -> None:
        stuck(lab)
        client = server.client(*ALL)
        for path in ("/jobs/mail/graph", "/groups/night/graph"):
            found = client.get(path).json
            assert [one["id"] for one in found["jobs"] if one["root_cause"]] == ["merge"], path
            vain = {(one["parent"], one["child"]) for one in found["edges"] if one["in_vain"]}
            assert vain == {("merge", "report"), ("report", "mail")}, path
        assert client.get("/groups/night/graph").json["id"] == "group night"
        assert len(client.get("/groups/night/graph?limit=2").json["jobs"]) == 2
        assert client.get("/groups/none/graph").status == 404
        reasons = client.get("/jobs/mail/explain").json
        (cause,) = [one for one in reasons if one["cause"] == "root_cause"]
        assert (cause["jobs"], cause["groups"]) == (["merge"], [])

    def test_parents_and_children_are_listed(self, lab: Lab, server: Server) -> None:
        stuck(lab)
        client = server.client("view")
        (parent,) = client.get("/jobs/report/parents").json
        assert parent == {
            "id": "merge",
            "group": False,
            "wanted": "ok",
            "state": "dead",
            "came_to": "dead",
            "met": False,
            "command": "exit 3",
            "queue": "default",
        }
        assert [one["id"] for one in client.get("/jobs/merge/children").json] == ["report", "clean"]
        assert len(client.get("/jobs/merge/children?limit=1").json) == 1

    def test_a_group_that_is_waited_for_is_what_a_retry_is_for(
        self, lab: Lab, server: Server
    ) -> None:
        lab.queue.enqueue("exit 1", id="a", max_retries=0, group="g")
        lab.queue.enqueue("true", id="b", after_group="g")
        lab.node()
        lab.wait_state("a", State.DEAD)
        reasons = server.client("view").get("/jobs/b/explain").json
        (cause,) = [one for one in reasons if one["cause"] == "root_cause"]
        assert (cause["jobs"], cause["groups"]) == ([], ["g"])

    def test_a_token_for_some_queues_is_told_of_nothing_else(
        self, lab: Lab, server: Server
    ) -> None:
        lab.queue.enqueue("true", id="theirs", queue="other", group="g")
        lab.queue.enqueue("true", id="mine", queue="mail", after="theirs", group="g")
        lab.queue.enqueue("true", id="hidden", queue="other", after="mine", group="g")
        client = server.client(*Role, queues=("mail",))
        assert [one["id"] for one in client.get("/groups/g/graph").json["jobs"]] == ["mine"]
        (parent,) = client.get("/jobs/mine/parents").json
        assert (parent["state"], parent["command"], parent["queue"]) == (None, None, None)
        assert client.get("/jobs/mine/children").json == []
        client.base = ""
        for path in ("/jobs/mine", "/jobs/mine/graph", "/jobs/mine/relatives", "/groups/g/graph"):
            page = shown(client, path)
            assert "hidden" not in page.replace("visually-hidden", "").replace('aria-hidden="', "")
        assert client.get("/jobs/theirs/graph").status == 404


class TestDrawing:
    def test_states_are_words_and_signs_and_the_root_cause_is_marked(
        self, lab: Lab, pages: Client
    ) -> None:
        stuck(lab)
        page = shown(pages, "/jobs/mail/graph")
        assert sorted(boxes(page)) == [
            "blocked this job true mail",
            "blocked true report",
            "completed true fetch",
            "dead root cause exit 3 merge",
        ]
        assert page.count('class="sign"') == 4 + 3
        assert page.count('class="tie way"') == 2
        assert 'href="/jobs/merge"' in page
        assert 'data-path="/jobs/merge/retry"' in page
        # All of it is there as text, too.
        tree = page.partition('id="tree"')[2]
        assert re.findall(r'href="/jobs/(\w+)"', tree) == ["fetch", "merge", "report", "mail"]

    def test_of_a_group_all_of_its_jobs(self, lab: Lab, pages: Client) -> None:
        stuck(lab)
        page = shown(pages, "/groups/night/graph")
        assert len(boxes(page)) == 5
        assert ">any</text>" in page
        assert pages.get("/groups/none/graph").status == 404

    def test_conditions_are_written_where_lines_end(self, lab: Lab, pages: Client) -> None:
        lab.queue.enqueue_many(
            [
                {"id": "a", "command": "a"},
                {"id": "b", "command": "b"},
                {"id": "c", "command": "c"},
                {"id": "d", "command": "d", "after": ["a", "b:fail", "c:any"]},
            ]
        )
        page = shown(pages, "/jobs/d/graph")
        assert re.findall(r">(ok|fail|any)</text>", page) == ["ok", "fail", "any"]

    def test_jobs_are_told_apart_by_what_they_have_to_themselves(
        self, lab: Lab, pages: Client
    ) -> None:
        lab.queue.enqueue_many(
            [
                {"id": f"j{n}", "command": "python train.py --lr 1", "parameters": {"seed": str(n)}}
                for n in (7, 8)
            ],
            group="sweep",
        )
        lab.queue.cancel("j8")
        drawn = boxes(shown(pages, "/groups/sweep/graph"))
        assert [one.partition(" ")[2] for one in drawn] == [
            "python train.p... [seed=7] j7",
            "python train.p... [seed=8] j8",
        ]
        whole = "python train.py --lr 1 [seed=7]"
        for path in ("/groups/sweep/graph", "/jobs"):
            assert whole in shown(pages, path), path

    def test_nothing_of_a_job_is_markup_and_no_style_is_in_a_page(
        self, lab: Lab, pages: Client
    ) -> None:
        odd = f"{ODD}/../?#%"
        lab.queue.enqueue(ODD, id=odd, group=odd)
        lab.queue.enqueue("line\none\u202e", id="two lines", after=[f"{odd}:ok"], group=odd)
        part = "%3Cscript%3Ealert(1)%3C%2Fscript%3E%22'%26%2F..%2F%3F%23%25"
        for path in (
            f"/jobs/{part}/graph",
            f"/groups/{part}/graph",
            f"/jobs/{part}/relatives",
            f"/jobs/{part}",
            "/jobs/two%20lines/graph",
            "/jobs/two%20lines",
        ):
            page = shown(pages, path)
            assert "<script>" not in page, path
            assert " style=" not in page, path
            assert "<style" not in page, path
            assert not re.search(r" on\w+=", page), path
        page = shown(pages, "/jobs/two%20lines/graph")
        assert (
            f"/jobs/{part.replace(chr(39), '%27').replace('(', '%28').replace(')', '%29')}" in page
        )
        assert "\u202e" not in "".join(boxes(page))
        assert "line one" in "".join(boxes(page))

    def test_what_is_gone_leads_nowhere(self, lab: Lab, pages: Client) -> None:
        lab.queue.enqueue("true", id="a")
        lab.queue.enqueue("true", id="b", after="a:any")
        lab.queue.remove("a")
        page = shown(pages, "/jobs/b/graph")
        assert sorted(boxes(page)) == ["gone a", "pending this job true b"]
        assert 'href="/jobs/a"' not in page


class TestManyJobs:
    def test_a_fan_of_500_is_three_boxes_and_each_if_asked(self, lab: Lab, pages: Client) -> None:
        names = [f"k{at}" for at in range(500)]
        lab.queue.enqueue_many(
            [
                {"id": "r", "command": "split"},
                *({"id": name, "command": f"work {name}", "after": "r"} for name in names),
                {"id": "z", "command": "join", "after": names},
            ]
        )
        page = shown(pages, "/jobs/r/graph")
        assert boxes(page) == [
            "pending this job split r",
            "\u00d7 500 blocked work k0, and others k0 … k499",
            "blocked join z",
        ]
        assert 'href="/jobs/r/graph?fold=false"' in page
        assert len(boxes(shown(pages, "/jobs/r/graph?fold=false"))) == 502
        # The job that one looks at stands by itself.
        assert len(boxes(shown(pages, "/jobs/k77/graph"))) == 3
        few = shown(pages, "/jobs/r/graph?limit=100")
        assert "There are more than 100 jobs; the nearest are drawn" in few
        assert "queuectl --db" in few
        assert "graph r --limit 0" in few

    def test_a_chain_of_1000_is_short_and_no_page_grows_with_its_square(
        self, lab: Lab, pages: Client
    ) -> None:
        lab.queue.enqueue_many(
            {"id": f"n{at}", "command": "true", "after": [f"n{at - 1}"] if at else []}
            for at in range(1_000)
        )
        page = shown(pages, "/jobs/n500/graph")
        assert boxes(page) == [
            "pending true n0",
            "\u00d7 499 blocked true n1 … n499",
            "blocked this job true n500",
            "\u00d7 498 blocked true n501 … n998",
            "blocked true n999",
        ]
        assert len(page) < 1_000_000
        apart = shown(pages, "/jobs/n500/graph?fold=false")
        assert len(boxes(apart)) == 1_000
        assert len(apart) < 2_000_000

    def test_more_than_a_page_has_are_counted(self, lab: Lab, pages: Client) -> None:
        lab.queue.enqueue("true", id="r")
        lab.queue.enqueue_many(
            {"id": f"k{at}", "command": "true", "after": "r"} for at in range(1_203)
        )
        page = shown(pages, "/jobs/r")
        assert len(re.findall(r'data-row="k\d+"', page)) == 10
        assert '<a href="/jobs/r/relatives#children">and 1,193 more</a>' in page
        every = shown(pages, "/jobs/r/relatives")
        assert len(re.findall(r'data-row="k\d+"', every)) == 1_000
        assert "and 203 more" in every
        drawn = shown(pages, "/jobs/r/graph")
        assert "There are more than 1,000 jobs" in drawn
        assert len(boxes(drawn)) == 2

    def test_parents_that_keep_it_come_first(self, lab: Lab, pages: Client) -> None:
        ids = [f"p{at:02}" for at in range(30)]
        lab.queue.enqueue_many({"id": id, "command": "true"} for id in ids)
        lab.queue.enqueue("true", id="c", after=[f"{id}:any" for id in ids])
        for id in ids[:25]:
            lab.queue.cancel(id)
        page = shown(pages, "/jobs/c")
        assert re.findall(r'data-row="(p\d+)"', page)[:5] == ids[25:]
        assert '<a href="/jobs/c/relatives">and 20 more</a>' in page
        assert "and 20 more" not in shown(pages, "/jobs/c/relatives")


class TestJobPage:
    def test_it_names_the_root_cause_and_what_repairs_it(self, lab: Lab, pages: Client) -> None:
        stuck(lab)
        page = shown(pages, "/jobs/mail")
        assert 'Root cause: <span class="repair"><a href="/jobs/merge">merge</a>' in page
        assert 'data-path="/jobs/merge/retry"' in page
        assert '<a class="more" href="/jobs/mail/graph">Graph</a>' in page

    def test_what_is_over_is_kept_by_nothing(self, lab: Lab, pages: Client) -> None:
        lab.queue.enqueue("true", id="a", delay="1h")
        lab.queue.enqueue("true", id="b", after="a")
        lab.queue.enqueue("true", id="c", after="a")
        lab.queue.cancel("c")
        rows = re.findall(r'data-row="(\w)".*?data-label="Keeps">([^<]*)<', shown(pages, "/jobs/a"))
        assert rows == [("b", "still"), ("c", "no longer")]
        assert 'data-label="Keeps">no longer<' in shown(pages, "/jobs/c")

    def test_what_waits_for_a_job_that_is_gone_can_be_changed(
        self, lab: Lab, pages: Client
    ) -> None:
        stuck(lab)
        lab.queue.remove("merge")
        page = shown(pages, "/jobs/mail")
        assert '<a class="js-only" href="/jobs/report/edit">Edit report</a>' in page
        assert 'name="after"' in shown(pages, "/jobs/report/edit")
        assert "merge is gone" in shown(pages, "/jobs/mail/graph")
        pages.base = API
        assert pages.patch("/jobs/report", {"after": []}).status == 200
        lab.wait_state("mail", State.COMPLETED)

    def test_who_may_only_look_has_no_button(self, lab: Lab, server: Server) -> None:
        stuck(lab)
        client = server.client("view")
        client.base = ""
        for path in ("/jobs/mail", "/jobs/mail/graph"):
            page = shown(client, path)
            assert 'href="/jobs/merge"' in page
            assert "data-do" not in page
            assert "data-group" not in page

    def test_several_root_causes_are_retried_at_once(self, lab: Lab, pages: Client) -> None:
        ids = [f"bad{at}" for at in range(7)]
        lab.queue.enqueue_many({"id": id, "command": "exit 1", "max_retries": 0} for id in ids)
        lab.queue.enqueue("exit 1", id="in-group", group="g", max_retries=0)
        lab.queue.enqueue("true", id="z", after=ids, after_group="g")
        lab.node(count=4)
        for id in (*ids, "in-group"):
            lab.wait_state(id, State.DEAD)
        for path in ("/jobs/z", "/jobs/z/graph"):
            page = shown(pages, path)
            assert "Retry 7 jobs</button>" in page, path
            (said,) = re.findall(r'data-ids="([^"]*)"', page)
            assert sorted(re.findall(r"bad\d", unescape(said))) == ids
            assert "and 2 more" in page
            assert unescape(re.findall(r'data-filter="([^"]*)"', page)[0]) == '{"group": "g"}'

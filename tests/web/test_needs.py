"""What jobs need and nodes have, on the pages and in the API."""

from tests.support import Lab, wait_for
from tests.web.conftest import ALL, Client, Server


def test_nodes_and_jobs_say_what_is_in_use(lab: Lab, server: Server) -> None:
    asked = server.client(*ALL)
    asked.post(
        "/jobs",
        {
            "id": "x",
            "command": "touch on; while [ ! -e go ]; do sleep 0.05; done",
            "cwd": str(lab.folder),
            "needs": {"gpu": 0.5, "mem": "1G"},
            "requires": ["ssd"],
        },
    )
    lab.node("--resources", "gpu=2,mem=4G", "--label", "ssd", count=2)
    wait_for((lab.folder / "on").exists, "the job to begin")
    [node] = asked.get("/nodes").json
    assert node["labels"] == ["ssd"]
    assert node["resources"]["gpu"] == {
        "total": 2,
        "used": 0.5,
        "free": 1.5,
        "devices": {"0": 0.5, "1": 1},
    }
    told = asked.get("/jobs/x").json
    assert (told["needs"], told["requires"]) == ({"gpu": 0.5, "mem": 2**30}, ["ssd"])
    assert told["devices"] == {"gpu": [0]}
    page = Client(server.port, asked.headers, "")
    nodes = page.get("/nodes").body.decode()
    for text in ("0.5 of 2 gpu in use", "1G of 4G mem in use", "1.5 free", "3G free", "gpu 1"):
        assert text in nodes
    assert '<span class="tag">ssd</span>' in nodes
    shown = page.get("/jobs/x").body.decode()
    assert "gpu 0.5, mem 1G · gpu 0" in shown
    (lab.folder / "go").touch()


def test_what_makes_no_sense_names_the_field(server: Server) -> None:
    asked = server.client(*ALL)
    refused = asked.post("/jobs", {"command": "true", "needs": {"gpu": 1.5}})
    assert (refused.status, refused.json["field"]) == (400, "needs")
    refused = asked.post("/jobs", {"command": "true", "requires": ["a b"]})
    assert (refused.status, refused.json["field"]) == (400, "requires")


def test_what_fits_nowhere_is_said_where_queues_are_looked_at(lab: Lab, server: Server) -> None:
    lab.queue.enqueue("true", id="huge", needs={"gpu": 9})
    lab.queue.enqueue_many(["true"] * 2, queue="odd", requires=["ssd"])
    lab.queue.enqueue("true", id="fits", queue="odd", delay="1h")
    lab.queue.enqueue("true", queue="odd", after="fits")
    lab.node("--resources", "gpu=2", count=2)
    page = Client(server.port, server.client(*ALL).headers, "")
    told = page.get("/").body.decode()
    huge = "1 job can&#39;t run: no worker has gpu=9 (the most that one has is gpu=2)"
    odd = "2 jobs can&#39;t run: no worker has label ssd"
    assert (told.count(huge), told.count(odd)) == (1, 1)
    assert "<b>1</b> blocked by others" in told
    assert odd in page.get("/queues/odd").body.decode()
    assert huge not in page.get("/queues/odd").body.decode()
    assert "Run now" not in page.get("/jobs/huge").body.decode()
    assert "Run now" in page.get("/jobs/fits").body.decode()


def test_a_job_says_its_bounds(lab: Lab, server: Server) -> None:
    lab.queue.enqueue("true", id="kept", memory="64M", best_effort=True)
    lab.queue.enqueue("true", id="free")
    page = Client(server.port, server.client(*ALL).headers, "")
    assert (
        "<dt>Bounds</dt><dd>memory 64MiB, best-effort</dd>" in page.get("/jobs/kept").body.decode()
    )
    assert "Bounds" not in page.get("/jobs/free").body.decode()

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

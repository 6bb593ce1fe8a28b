"""`--needs`, `--requires`, `--resources` and `--label` on the command line."""

import json

import pytest

from tests.cli.conftest import Cli


def test_a_job_keeps_what_it_needs(cli: Cli) -> None:
    cli.ok("enqueue", "--id", "x", "--needs", "gpu=1,mem=8G", "--needs", "cpu=2.50", "true")
    cli.ok("enqueue", "--id", "y", "--requires", "ssd", "--requires", "eu", "true")
    told = cli.ok("show", "x", "--json").json
    assert told["needs"] == {"cpu": 2.5, "gpu": 1, "mem": 8 * 2**30}
    assert (told["requires"], told["devices"]) == ([], {})
    assert cli.ok("show", "y", "--json").json["requires"] == ["eu", "ssd"]
    assert cli.queue.get("x").handler == "needs:cpu=2.5,gpu=1,mem=8589934592"


def test_json_jobs_and_data_have_it_as_well(cli: Cli) -> None:
    lines = [
        {"id": "a", "command": "true", "needs": {"gpu": 0.5}, "requires": "ssd"},
        {"id": "b", "command": "true", "needs": "cpu=1"},
        {"id": "c", "type": "mail", "data": "x", "needs": {"mem": "512M"}},
    ]
    cli.ok("enqueue", "--file", "-", input="\n".join(map(json.dumps, lines)))
    assert cli.queue.get("a").handler == "needs:gpu=0.5;ssd"
    assert cli.queue.get("b").needs == "cpu=1"
    assert cli.queue.get("c").handler == "needs:mem=536870912 type:mail"
    assert "c" in cli.ok("list", "--type", "mail", "-q").stdout.split()


@pytest.mark.parametrize(
    ("needs", "why"),
    [
        ("gpu", "write NAME=AMOUNT"),
        ("gpu=1.5", "of several whole ones"),
        ("mem=8", "write mem=8G"),
        ("mem=512K", "mem=512K; memory is counted from a megabyte on: mem=1M"),
        ("db=1", "QUEUECTL_DB says something else"),
        ("gpu=x", "an amount is a number"),
    ],
)
def test_what_makes_no_sense_is_refused(cli: Cli, needs: str, why: str) -> None:
    assert why in cli.refused("enqueue", "--needs", needs, "true", code=2)
    assert cli.queue.count() == 0


def test_labels_that_make_no_sense_are_refused(cli: Cli) -> None:
    assert "a label is a word" in cli.refused("enqueue", "--requires", "a b", "true", code=2)


def test_labels_of_json_jobs_are_texts(cli: Cli) -> None:
    told = cli.refused("enqueue", '{"command": "true", "requires": [null]}', code=2)
    assert "requires can't be 'null'; a label is a text" in told


def test_what_is_needed_can_be_edited(cli: Cli) -> None:
    cli.ok("enqueue", "--id", "x", "--needs", "gpu=1", "--requires", "ssd", "true")
    cli.ok("edit", "x", "--needs", "gpu=2,cpu=1")
    assert cli.queue.get("x").handler == "needs:cpu=1,gpu=2;ssd"
    cli.ok("edit", "x", "--needs", "none", "--requires", "none")
    job = cli.queue.get("x")
    assert (job.handler, job.needs, job.requires) == ("", None, ())


def test_a_clone_needs_the_same(cli: Cli) -> None:
    cli.ok("enqueue", "--id", "x", "--needs", "gpu=1", "--requires", "ssd", "true")
    assert cli.queue.clone("x").job.handler == "needs:gpu=1;ssd"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--resources", "gpu=1.5"], "whole devices"),
        (["--resources", "gpu=[x]"], "devices are listed"),
        (["--resources", "cpu"], "write NAME=AMOUNT"),
        (["--resources", "auto,auto"], "auto twice; say it once"),
        (["--resources", "auto", "--resources", "auto"], "auto twice; say it once"),
        (["--resources", "gpu=[5-1]"], "5-1 goes down"),
        (["--label", "a b"], "a label is a word"),
    ],
)
def test_a_node_that_has_nonsense_isnt_started(cli: Cli, options: list[str], why: str) -> None:
    assert why in cli.refused("worker", "start", *options, code=2)


def test_options_of_a_node_can_be_kept_in_a_file(cli: Cli) -> None:
    cli.ok("worker", "configure", "node.toml", "--resources", "cpu=2", "--label", "ssd")
    cli.ok("enqueue", "--id", "x", "--needs", "cpu=2", "--requires", "ssd", "true")
    cli.ok("worker", "start", "-f", "node.toml", "--drain")
    assert cli.queue.get("x").state == "completed"


def test_whoever_enqueues_hears_what_is_missing(cli: Cli) -> None:
    done = cli.run("enqueue", "--needs", "gpu=1,mem=2G", "--requires", "ssd", "true")
    assert "worker start --resources gpu=1,mem=2G --label ssd" in done.stderr

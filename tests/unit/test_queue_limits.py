"""`queue.limits`: what is given changes, what can't be is refused with a sentence."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from queuectl import Limits, Queue, UsageError, WhenFull
from queuectl.limits import parse_rate


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Queue]:
    with Queue(str(tmp_path / "queue.db")) as queue:
        yield queue


def test_nothing_is_set_at_first(queue: Queue) -> None:
    assert queue.limits.all() == {}
    assert queue.limits.get("mail") == Limits()


def test_everything_can_be_set_and_is_told(queue: Queue) -> None:
    set_to = queue.limits.set(
        "mail",
        limit=3,
        rates=["100/1m", "5/s"],
        key_limit=1,
        key_limits={"gpu": 2, "tenant=a": 4},
        key_rates="10/1m:2",
        weights={"vip": 5},
        max_waiting=600,
        when_full="drop-newest",
        priority=7,
        timeout=timedelta(minutes=8),
        max_retries=9,
        backoff="linear",
        backoff_base=2.5,
        retry_delay="11s",
        max_backoff=12.5,
        expire="1h",
    )
    assert set_to == Limits(
        limit=3,
        rates=(parse_rate("100/1m"), parse_rate("5/1s")),
        key_limit=1,
        key_limits={"gpu": 2, "tenant=a": 4},
        key_rates=(parse_rate("10/1m:2"),),
        weights={"vip": 5},
        max_waiting=600,
        when_full=WhenFull.DROP_NEWEST,
        defaults={
            "priority": 7,
            "timeout": "8m",
            "max_retries": 9,
            "backoff": "linear",
            "backoff_base": 2.5,
            "retry_delay": "11s",
            "max_backoff": "12.5s",
            "expire": "1h",
        },
    )
    assert queue.limits.all() == {"mail": set_to}
    assert queue.limits.get("mail") == set_to


def test_only_what_is_given_changes(queue: Queue) -> None:
    queue.limits.set("mail", limit=3, rates=["5/1s"], key_limits={"a": 1, "b": 2}, timeout="5m")
    after = queue.limits.set("mail", limit=4, key_limits={"a": None, "c": 3}, priority=1)
    assert (after.limit, after.rates) == (4, (parse_rate("5/1s"),))
    assert after.key_limits == {"b": 2, "c": 3}
    assert after.defaults == {"timeout": "5m", "priority": 1}


def test_none_takes_away(queue: Queue) -> None:
    queue.limits.set("mail", limit=3, rates=["5/1s"], key_limits={"a": 1}, timeout="5m")
    after = queue.limits.set("mail", limit=None, rates=None, key_limits=None, timeout=None)
    assert after == Limits()
    assert queue.limits.all() == {}


def test_clearing_takes_all_away(queue: Queue) -> None:
    queue.limits.set("mail", limit=3, when_full="reject", priority=4)
    queue.limits.clear("mail")
    assert queue.limits.get("mail") == Limits()


def test_what_a_queue_says_holds_for_the_next_job(queue: Queue) -> None:
    queue.enqueue("true", queue="mail")
    queue.limits.set("mail", priority=5, timeout="2m", max_retries=0)
    job = queue.enqueue("true", queue="mail")
    assert (job.priority, job.timeout, job.max_retries) == (5, 120_000, 0)
    said = queue.enqueue("true", queue="mail", priority=-1)
    assert (said.priority, said.timeout) == (-1, 120_000)
    many = queue.enqueue_many(["true"], queue="mail")
    assert queue.get(many.ids[0]).priority == 5
    assert queue.enqueue("true").priority == 0
    queue.limits.clear("mail")
    assert queue.enqueue("true", queue="mail").priority == 0


def test_each_change_is_an_event(queue: Queue) -> None:
    queue.limits.set("mail", limit=3, rates=["5/1s", "9/1m"], weights={"a": 2, "b": None})
    queue.limits.set("mail", limit=None)
    queue.limits.clear("mail")
    assert [(event.kind, event.detail) for event in queue.events()] == [
        ("limits", "mail: cleared"),
        ("limits", "mail: limit none"),
        ("limits", "mail: limit 3, rates 5/1s 9/1m, weights a=2 b=none"),
    ]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, "Say what to set on the queue, such as limit=3."),
        ({"limit": 0}, "limit must be a whole number from 1 to 1,000,000, not '0'."),
        ({"limit": -1}, "limit must be a whole number from 1 to 1,000,000, not '-1'."),
        ({"limit": True}, "limit must be a whole number from 1 to 1,000,000, not 'true'."),
        ({"limit": 1_000_001}, "limit must be a whole number from 1 to 1,000,000"),
        ({"limit": 2.5}, "limit must be a whole number"),
        ({"limit": "many"}, "limit must be a whole number"),
        ({"limit": "\N{FULLWIDTH DIGIT ONE}"}, "limit must be a whole number"),
        ({"key_limit": "²"}, "key_limit must be a whole number"),
        ({"max_waiting": 0}, "max_waiting must be a whole number from 1"),
        ({"rates": ["fast"]}, "A rate is a number of jobs and a time, such as 100/1m or 5/1s"),
        ({"rates": ["0/1s"]}, "A rate allows 1 to 1,000,000 jobs in a time that isn't 0"),
        ({"rates": ["1/0s"]}, "A rate allows 1 to 1,000,000 jobs in a time that isn't 0"),
        ({"rates": 5}, "rates must be rates such as 100/1m, not '5'."),
        ({"rates": ["1/1s", "2/1m", "3/1h", "4/2h", "5/1d"]}, "rates can be 4 rates at most"),
        ({"key_limits": {"a": 0}}, "key_limits of a must be a whole number from 1"),
        ({"key_limits": {"": 1}}, "a key is empty."),
        ({"key_limits": {"a\nb": 1}}, "a key must be printable"),
        ({"key_limits": {"a\0b": 1}}, "a key contains a NUL byte"),
        ({"key_limits": {"x" * 2**20: 1}}, "a key is 1,048,576 bytes long"),
        ({"key_limits": ["a"]}, "key_limits must map keys to numbers"),
        ({"key_limits": {f"k{n}": 1 for n in range(1001)}}, "key_limits can be said of 1,000 keys"),
        ({"weights": {"a": 1001}}, "weights of a must be a whole number from 1 to 1,000"),
        ({"when_full": "explode"}, "when_full is one of wait, reject, drop-newest"),
        ({"when_full": "reject"}, "when_full reject needs to know when that is; set max_waiting"),
        ({"when_full": "wait", "max_waiting": 5}, "when_full wait lets every new job wait"),
        ({"priority": "high"}, "priority must be a whole number, not 'high'."),
        ({"timeout": "soon"}, "Bad timeout: "),
        ({"backoff": "slow"}, "Bad backoff: "),
        ({"max_retries": -1}, "max_retries must be from 0"),
        ({"limits": 3}, "There is nothing called 'limits' to set on a queue; did you mean 'limit'"),
        ({"cwd": "/"}, "There is nothing called 'cwd' to set on a queue"),
    ],
)
def test_what_can_not_be_is_refused_and_nothing_is_stored(
    queue: Queue, changes: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(UsageError) as refused:
        queue.limits.set("mail", **changes)
    assert str(refused.value).startswith(sentence)
    assert queue.queues() == []
    assert queue.events() == []


def test_a_queue_needs_a_name(queue: Queue) -> None:
    for name in ("", "a\nb", " a"):
        with pytest.raises(UsageError, match="queue"):
            queue.limits.set(name, limit=1)
        with pytest.raises(UsageError, match="queue"):
            queue.limits.get(name)

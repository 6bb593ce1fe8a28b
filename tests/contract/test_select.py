"""Listings and counters: filters, order, paging, and numbers that are always right."""

import pytest

from queuectl.errors import UsageError
from queuectl.facts import Count
from queuectl.filter import Filter, Sort
from queuectl.job import Exited, NewJob, State
from queuectl.lifecycle import Policy, cancelled
from queuectl.store import Store
from tests.contract.tools import (
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    Client,
    a_node,
    add,
    apply,
    assert_counts_are_right,
    ended,
    finish,
    ids,
    remove,
    run,
    slowest,
    states,
    take,
    take_one,
    the,
    waiting,
)


def found(store: Store, limit: int | None = None, **which: object) -> list[str]:
    """Return the ids of the jobs that fit, oldest first."""
    return ids(store.jobs.select(Filter(**which), limit=limit, oldest=True))  # type: ignore[arg-type]


@pytest.fixture
def mixed(store: Store) -> Store:
    """Jobs in every state there is today, in two queues, one second apart."""
    a_node(store)
    add(store, "completed", queue="one", tags=("red", "big"), now=NOW + 1 * SECOND)
    add(store, "dead", queue="two", tags=("red",), max_retries=0, now=NOW + 2 * SECOND)
    run(store, "completed", now=NOW + 10 * SECOND)
    run(store, "dead", Exited(3), now=NOW + 20 * SECOND, error="it BROKE")
    add(store, "failed", queue="one", tags=("blue",), now=NOW + 3 * SECOND)
    run(store, "failed", Exited(4), now=NOW + 30 * SECOND, error=None)
    add(store, "cancelled", queue="two", tags=("big",), now=NOW + 4 * SECOND)
    job = the(store, "cancelled")
    apply(store, job, cancelled(job, "nobody Wants it"), now=NOW + 40 * SECOND)
    add(store, "processing", queue="one", now=NOW + 5 * SECOND)
    take_one(store, now=NOW + 6 * SECOND)
    add(store, "pending", queue="two", tags=("red", "blue", "big"), now=NOW + 6 * SECOND)
    later = NOW + HOUR
    add(store, "delayed", argv=("sleep", "99"), queue="one", run_at=later, now=NOW + 7 * SECOND)
    return store


class TestFilters:
    def test_none_means_all(self, mixed: Store) -> None:
        assert found(mixed) == (
            "completed dead failed cancelled processing pending delayed".split()
        )

    @pytest.mark.parametrize(
        ("names", "expected"),
        [
            (["pending"], ["pending", "delayed"]),
            (["failed"], ["failed"]),
            (["dead", "completed"], ["completed", "dead"]),
            (["blocked"], []),
            ([state.value for state in State], None),
        ],
    )
    def test_by_state(self, mixed: Store, names: list[str], expected: list[str] | None) -> None:
        wanted = tuple(State(name) for name in names)
        assert found(mixed, states=wanted) == (found(mixed) if expected is None else expected)

    @pytest.mark.parametrize(
        ("queues", "expected"),
        [
            (("one",), "completed failed processing delayed"),
            (("two",), "dead cancelled pending"),
            (("two", "one"), "completed dead failed cancelled processing pending delayed"),
            (("three",), ""),
            (("on",), ""),
        ],
    )
    def test_by_queue(self, mixed: Store, queues: tuple[str, ...], expected: str) -> None:
        assert found(mixed, queues=queues) == expected.split()

    @pytest.mark.parametrize(
        ("tags", "expected"),
        [
            (("red",), "completed dead pending"),
            (("blue",), "failed pending"),
            (("red", "big"), "completed pending"),
            (("big", "blue", "red"), "pending"),
            (("red", "green"), ""),
            (("re",), ""),
            (("RED",), ""),
        ],
    )
    def test_by_all_of_the_tags(self, mixed: Store, tags: tuple[str, ...], expected: str) -> None:
        assert found(mixed, tags=tags) == expected.split()

    @pytest.mark.parametrize(
        ("types", "expected"),
        [
            (("bill",), "bill tagged"),
            (("photo", "bill"), "bill photo tagged"),
            (("",), "untyped"),
            (("bil",), ""),
            (("BILL",), ""),
            (("type:bill",), ""),
        ],
    )
    def test_by_type_of_which_a_job_has_one(
        self, mixed: Store, types: tuple[str, ...], expected: str
    ) -> None:
        for id, type, queue, tags in (
            ("bill", "bill", "one", ()),
            ("photo", "photo", "two", ()),
            ("untyped", "", "one", ()),
            ("tagged", "bill", "two", ("red",)),
        ):
            job = NewJob(id=id, type=type, data=b"x", queue=queue, tags=tags)
            mixed.jobs.enqueue([job], now=NOW)
        wanted = expected.split()
        assert found(mixed, types=types) == wanted
        assert found(mixed, types=types, tags=("red",)) == [id for id in wanted if id == "tagged"]
        in_two = [id for id in wanted if id in ("photo", "tagged")]
        assert found(mixed, types=types, queues=("two",), states=(State.PENDING,)) == in_two
        assert in_order(mixed, Sort("id"), types=types) == sorted(wanted)

    def test_times_bound_the_creation_from_inclusive_to_exclusive(self, mixed: Store) -> None:
        assert found(mixed, since=NOW + 5 * SECOND) == ["processing", "pending", "delayed"]
        assert found(mixed, until=NOW + 3 * SECOND) == ["completed", "dead"]
        assert found(mixed, since=NOW + 2 * SECOND, until=NOW + 4 * SECOND) == ["dead", "failed"]
        assert found(mixed, since=NOW + HOUR) == []

    def test_finished_before_knows_only_finished_jobs(self, mixed: Store) -> None:
        assert found(mixed, finished_before=NOW + HOUR) == ["completed", "dead", "cancelled"]
        assert found(mixed, finished_before=NOW + 20 * SECOND) == ["completed"]

    def test_finished_since_knows_only_finished_jobs(self, mixed: Store) -> None:
        assert found(mixed, finished_since=NOW) == ["completed", "dead", "cancelled"]
        assert found(mixed, finished_since=NOW + 20 * SECOND) == ["dead", "cancelled"]
        [dead] = mixed.jobs.select(Filter(states=(State.DEAD,)), limit=1)
        assert dead.finished_at is not None
        at = dead.finished_at
        assert "dead" in found(mixed, finished_since=at)
        assert "dead" not in found(mixed, finished_since=at + 1)

    def test_due_knows_only_jobs_that_wait(self, mixed: Store) -> None:
        waiting = the(mixed, "failed").run_at
        assert NOW + 30 * SECOND < waiting < NOW + HOUR
        assert found(mixed, due_since=NOW + 7 * SECOND) == ["failed", "delayed"]
        assert found(mixed, due_since=waiting) == ["failed", "delayed"]
        assert found(mixed, due_since=waiting + 1) == ["delayed"]
        assert found(mixed, due_before=waiting) == ["pending"]
        assert found(mixed, due_before=NOW + HOUR, states=(State.FAILED,)) == ["failed"]

    def test_keys_are_matched_whole_and_all_of_them(self, store: Store) -> None:
        add(store, "none")
        add(store, "one", keys=("user1",))
        add(store, "both", keys=("user1", "tenant=ä"))
        add(store, "upper", keys=("USER1",))
        add(store, "odd", keys=('x", "user2', "a'b%_"))
        assert found(store, keys="user1") == ["one", "both"]
        assert found(store, keys=("tenant=ä", "user1")) == ["both"]
        assert found(store, keys=('x", "user2',)) == ["odd"]
        assert found(store, keys=("a'b%_",), queues=("default",)) == ["odd"]
        for nobody in ("user", "user2", "a'b%", "", '"', "tenant"):
            assert found(store, keys=(nobody,)) == []

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("cancel", ["cancelled"]),
            ("echo", "completed dead failed cancelled processing pending".split()),
            ("ECHO P", ["processing", "pending"]),
            ("sleep", ["delayed"]),
            ("99", ["delayed"]),
            ("broke", ["dead"]),
            ("wants it", ["cancelled"]),
            ("exit code 3", ["dead"]),
            ("no such text", []),
        ],
    )
    def test_by_text_in_id_command_arguments_error_and_reason(
        self, mixed: Store, text: str, expected: list[str]
    ) -> None:
        assert found(mixed, text=text) == expected

    def test_together_they_narrow(self, mixed: Store) -> None:
        assert found(mixed, queues=("two",), states=(State.PENDING,)) == ["pending"]
        assert found(mixed, queues=("two",), tags=("red",)) == ["dead", "pending"]
        assert found(mixed, tags=("red",), states=(State.DEAD, State.PENDING), text="de") == [
            "dead"
        ]
        assert found(mixed, states=(State.PENDING,), since=NOW + 7 * SECOND) == ["delayed"]
        assert found(mixed, queues=("one",), text="e", until=NOW + 4 * SECOND) == [
            "completed",
            "failed",
        ]
        assert found(mixed, tags=("red",), queues=("one",), states=(State.DEAD,)) == []

    def test_jobs_come_whole(self, mixed: Store) -> None:
        for job in mixed.jobs.select(Filter(), limit=None):
            assert job == mixed.jobs.get(job.id)


class TestText:
    """Characters that mean something to the database mean nothing in a search."""

    @pytest.mark.parametrize(
        ("command", "text"),
        [
            ("100%", "%"),
            ("100%", "0%"),
            ("snake_case", "_"),
            ("wow!", "!"),
            ("a!%b", "!%"),
            ("a!!b", "!!"),
            ("a!_b", "!_"),
            ("back\\slash", "\\"),
            ("it's", "'"),
            ('say "x"', '"x"'),
            ("{jobs}", "{jobs}"),
            (":text", ":text"),
            ("größe", "öße"),
            ("🦊", "🦊"),
        ],
    )
    def test_is_found_as_it_is(self, store: Store, command: str, text: str) -> None:
        add(store, "right", command=command)
        add(store, "wrong", command="1000 plain words")
        assert found(store, text=text) == ["right"]
        assert found(store, text=text, states=(State.PENDING,)) == ["right"]

    @pytest.mark.parametrize("text", ["größe", "日本", "🦊", "'a b'", "C:\\x"])
    def test_is_found_in_arguments_too(self, store: Store, text: str) -> None:
        add(store, "right", argv=("program", f"<{text}>"))
        assert found(store, text=text) == ["right"]

    @pytest.mark.parametrize("text", ["\udcff", "a\0b", "x" * 1_000, "%" * 1_000])
    def test_what_can_be_in_no_job_is_in_none(self, store: Store, text: str) -> None:
        add(store, "a", command="b")
        assert found(store, text=text) == []

    def test_has_a_length(self, store: Store) -> None:
        with pytest.raises(UsageError, match="1,000 characters"):
            found(store, text="x" * 1_001)


class TestOrder:
    def test_newest_first_unless_oldest_is_asked(self, store: Store) -> None:
        names = [f"job {n}" for n in range(20)]
        for n, name in enumerate(names):
            add(store, name, priority=n % 3, queue=f"q{n % 4}", now=NOW - n)
        assert ids(store.jobs.select(Filter(), limit=None)) == names[::-1]
        assert ids(store.jobs.select(Filter(), limit=None, oldest=True)) == names
        which = Filter(queues=("q0", "q1", "q2", "q3"))
        assert ids(store.jobs.select(which, limit=None)) == names[::-1]

    @pytest.mark.parametrize("limit", [0, 1, 3, 7, 8, None])
    def test_gives_at_most_the_limit(self, mixed: Store, limit: int | None) -> None:
        everything = ids(mixed.jobs.select(Filter(), limit=None))
        for which in (Filter(), Filter(queues=("one", "two")), Filter(states=tuple(State))):
            assert ids(mixed.jobs.select(which, limit=limit)) == everything[:limit]
        tagged = ids(mixed.jobs.select(Filter(tags=("red",)), limit=None))
        assert ids(mixed.jobs.select(Filter(tags=("red",)), limit=limit)) == tagged[:limit]

    @pytest.mark.parametrize("oldest", [False, True])
    @pytest.mark.parametrize(
        "which",
        [
            Filter(),
            Filter(queues=("q0", "q1")),
            Filter(states=(State.PENDING,)),
            Filter(tags=("odd",)),
            Filter(text="echo"),
            Filter(queues=("q1", "q2"), tags=("even",), text="e"),
        ],
        ids=["all", "queues", "states", "tags", "text", "several"],
    )
    def test_pages_join_into_the_whole(self, store: Store, which: Filter, oldest: bool) -> None:
        for n in range(30):
            tag = "odd" if n % 2 else "even"
            add(store, f"job {n}", queue=f"q{n % 3}", tags=(tag,), priority=-n)
        whole = store.jobs.select(which, limit=None, oldest=oldest)
        assert whole
        pages = []
        after = None
        while page := store.jobs.select(which, limit=4, after=after, oldest=oldest):
            pages += page
            after = page[-1].seq
        assert pages == whole

    def test_paging_is_stable_while_jobs_come_and_go(self, store: Store) -> None:
        for n in range(12):
            add(store, f"old {n:02}")
        first = store.jobs.select(Filter(), limit=4)
        assert ids(first) == ["old 11", "old 10", "old 09", "old 08"]
        add(store, "new")
        remove(store, the(store, "old 08"))
        remove(store, the(store, "old 06"))
        second = store.jobs.select(Filter(), limit=4, after=first[-1].seq)
        assert ids(second) == ["old 07", "old 05", "old 04", "old 03"]
        ahead = store.jobs.select(Filter(), limit=4, after=first[0].seq, oldest=True)
        assert ids(ahead) == ["new"]


def in_order(store: Store, *by: Sort, limit: int | None = None, **which: object) -> list[str]:
    """Return the ids of the jobs that fit, sorted by columns."""
    places = store.jobs.places(Filter(**which), by, limit=limit)  # type: ignore[arg-type]
    return ids(store.jobs.at(places))


class TestHorizon:
    """Listings that look at no more than so many jobs."""

    @pytest.fixture
    def line(self, store: Store) -> Store:
        """Twelve jobs: of two queues in turns, each third with a tag."""
        for number in range(12):
            tags = ("third",) if number % 3 == 0 else ()
            add(store, f"j{number:02}", queue=("even", "odd")[number % 2], tags=tags)
        return store

    @pytest.mark.parametrize(
        ("which", "after", "oldest", "last"),
        [
            ({}, None, False, "j08"),
            ({}, None, True, "j03"),
            ({}, "j05", False, "j01"),
            ({}, "j05", True, "j09"),
            ({}, "j04", False, "j00"),
            ({}, "j03", False, None),
            ({"text": "nothing"}, None, False, "j08"),
            ({"queues": "odd"}, None, False, "j05"),
            ({"queues": "odd", "text": "nothing"}, "j05", False, None),
            ({"states": "pending", "queues": "odd"}, None, True, "j07"),
            ({"states": "dead"}, None, False, None),
            ({"tags": "third"}, None, False, "j00"),
            ({"tags": "third", "queues": "odd"}, None, True, "j09"),
            ({"tags": "third"}, "j09", False, None),
        ],
    )
    def test_it_is_the_last_that_is_looked_at(
        self, line: Store, which: dict[str, str], after: str | None, oldest: bool, last: str | None
    ) -> None:
        seq = None if after is None else the(line, after).seq
        found = line.jobs.horizon(Filter(**which), looks=4, after=seq, oldest=oldest)  # type: ignore[arg-type]
        assert (None if found is None else found.id) == last

    @pytest.mark.parametrize(
        "which", [{}, {"queues": ("even", "odd")}, {"tags": "third"}, {"text": "j0"}]
    )
    @pytest.mark.parametrize("oldest", [False, True])
    def test_nothing_behind_it_is_found(
        self, line: Store, which: dict[str, str], oldest: bool
    ) -> None:
        last = the(line, "j06").seq
        listed = line.jobs.select(Filter(**which), limit=None, oldest=oldest)  # type: ignore[arg-type]
        part = line.jobs.select(Filter(**which), limit=None, last=last, oldest=oldest)  # type: ignore[arg-type]
        assert ids(part) == [
            job.id for job in listed if (job.seq <= last if oldest else job.seq >= last)
        ]
        assert "j06" in ids(part)


class TestSorted:
    def test_by_one_column_and_of_equals_the_newest_first(self, store: Store) -> None:
        for n in range(6):
            add(store, f"job {n}", priority=n % 3)
        up = "job 3,job 0,job 4,job 1,job 5,job 2".split(",")
        assert in_order(store, Sort("priority")) == up
        down = "job 5,job 2,job 4,job 1,job 3,job 0".split(",")
        assert in_order(store, Sort("priority", descending=True)) == down

    def test_what_is_not_there_comes_last_either_way(self, mixed: Store) -> None:
        rest = "delayed pending processing failed".split()
        ended = "completed dead cancelled".split()
        assert in_order(mixed, Sort("finished_at")) == ended + rest
        assert in_order(mixed, Sort("finished_at", descending=True)) == ended[::-1] + rest

    def test_by_several_columns(self, mixed: Store) -> None:
        assert in_order(mixed, Sort("queue", descending=True), Sort("state")) == (
            "cancelled dead pending completed failed delayed processing".split()
        )

    def test_texts_by_their_code_points(self, store: Store) -> None:
        names = ["B", "Z", "a", "b", "z", "ß", "ä", "\U0001f98a"]
        for name in sorted(names, reverse=True):
            add(store, name)
        assert in_order(store, Sort("id")) == sorted(names)

    @pytest.mark.parametrize("limit", [0, 1, 3, None])
    def test_gives_at_most_the_limit(self, mixed: Store, limit: int | None) -> None:
        by = Sort("created_at")
        assert in_order(mixed, by, limit=limit) == in_order(mixed, by)[:limit]

    @pytest.mark.parametrize(
        "which",
        [
            {"states": (State.DEAD, State.COMPLETED)},
            {"states": (State.PENDING,)},
            {"states": (State.PROCESSING, State.PENDING)},
            {"queues": ("two",)},
            {"queues": ("two", "three"), "states": (State.DEAD, State.PENDING)},
            {"queues": ("three",)},
            {"tags": ("red",)},
            {"tags": ("red", "big"), "queues": ("one",)},
            {"text": "echo"},
            {"text": "a\0b"},
            {"since": NOW + 3 * SECOND, "until": NOW + 6 * SECOND},
            {"finished_before": NOW + 20 * SECOND},
        ],
        ids=str,
    )
    def test_the_same_jobs_fit_as_in_a_listing(
        self, mixed: Store, which: dict[str, object]
    ) -> None:
        assert in_order(mixed, Sort("created_at"), **which) == found(mixed, **which)  # type: ignore[arg-type]

    def test_there_is_no_other_column(self, store: Store) -> None:
        with pytest.raises(ValueError, match="no column"):
            in_order(store, Sort("id; DROP TABLE jobs"))

    def test_jobs_come_in_the_order_of_their_places(self, mixed: Store) -> None:
        jobs = mixed.jobs.select(Filter(), limit=None)
        places = [job.seq for job in jobs]
        assert mixed.jobs.at([*places[::2], 10**9]) == jobs[::2]
        assert mixed.jobs.at([]) == []


class TestStates:
    def test_missing_jobs_are_missing(self, mixed: Store) -> None:
        asked = ["dead", "nowhere", "pending", "dead", ""]
        assert mixed.jobs.states(asked) == {"dead": State.DEAD, "pending": State.PENDING}

    def test_of_none(self, store: Store) -> None:
        assert store.jobs.states([]) == {}

    def test_of_very_many(self, store: Store) -> None:
        names = [f"job {n}" for n in range(12_000)]
        store.jobs.enqueue([NewJob(id=name, command="x") for name in names[::2]], now=NOW)
        told = store.jobs.states(names)
        assert told == dict.fromkeys(names[::2], State.PENDING)

    def test_odd_ids_are_found(self, store: Store) -> None:
        for id in ("it's", 'a "b"', "ä🦊", "a,b]", "\\"):
            add(store, id)
            assert store.jobs.states([id]) == {id: State.PENDING}


class TestCounts:
    def test_of_an_empty_store(self, store: Store) -> None:
        assert store.jobs.counts() == []

    def test_by_queue_state_and_priority(self, store: Store) -> None:
        add(store, "a", queue="one", priority=5, timeout=1_000)
        add(store, "b", queue="one", priority=5, timeout=0)
        add(store, "c", queue="one", priority=6)
        add(store, "d", queue="two", priority=5, run_at=NOW + 1)
        told = sorted(store.jobs.counts(), key=lambda count: (count.queue, count.priority))
        assert told == [
            Count(queue="one", state=State.PENDING, priority=5, jobs=2, timed=1),
            Count(queue="one", state=State.PENDING, priority=6, jobs=1, timed=0),
            Count(queue="two", state=State.PENDING, priority=5, jobs=1, timed=0),
        ]

    def test_follow_every_change(self, mixed: Store, client: Client) -> None:
        assert_counts_are_right(mixed, client)
        for job in mixed.jobs.select(Filter(), limit=None):
            remove(mixed, job)
            assert_counts_are_right(mixed, client)
        assert [count.state for count in mixed.jobs.counts()] == [State.PROCESSING]

    def test_follow_other_programs_too(self, mixed: Store, client: Client) -> None:
        for change in (
            "INSERT INTO {jobs} (id, command) VALUES ('raw', 'x')",
            "INSERT INTO {jobs} (id, command, priority, timeout) VALUES ('r2', 'x', 7, 9)",
            "UPDATE {jobs} SET priority = 3",
            "UPDATE {jobs} SET queue = 'three' WHERE id IN ('dead', 'raw')",
            "UPDATE {jobs} SET timeout = 5 WHERE id IN ('dead', 'pending')",
            "UPDATE {jobs} SET timeout = 6 WHERE id = 'dead'",
            "UPDATE {jobs} SET timeout = NULL WHERE id = 'pending'",
            "UPDATE {jobs} SET state = 'cancelled', ready = NULL WHERE id = 'delayed'",
            "UPDATE {jobs} SET error = 'changes nothing that is counted'",
            "DELETE FROM {jobs} WHERE id IN ('raw', 'completed')",
            "DELETE FROM {jobs}",
        ):
            client.run(change)
            assert_counts_are_right(mixed, client)
        assert mixed.jobs.counts() == []


class TestSlowest:
    def test_the_longest_last_runs_of_completed_jobs(self, store: Store) -> None:
        a_node(store)
        for n, ms in enumerate([30, 500, 70, 9_000, 100]):
            add(store, f"took {ms}", now=NOW + n * MINUTE)
            run(store, f"took {ms}", now=NOW + n * MINUTE + 10 * SECOND, duration_ms=ms)
        add(store, "failed", max_retries=0, now=NOW + 6 * MINUTE)
        run(store, "failed", Exited(1), now=NOW + 7 * MINUTE, duration_ms=99_999)
        assert ids(slowest(store, 3)) == ["took 9000", "took 500", "took 100"]
        assert len(slowest(store, 100)) == 5
        assert slowest(store, 0) == []
        assert slowest(store, 1) == [the(store, "took 9000")]

    def test_of_an_empty_store(self, store: Store) -> None:
        assert slowest(store, 5) == []


class TestNextDue:
    def test_is_the_earliest_of_those_that_wait_for_their_time(self, store: Store) -> None:
        assert store.runs.outlook().due is None
        add(store, "now")
        assert store.runs.outlook().due is None
        add(store, "later", run_at=NOW + HOUR, priority=9)
        add(store, "sooner", run_at=NOW + MINUTE)
        assert store.runs.outlook().due == NOW + MINUTE

    def test_counts_jobs_that_wait_for_their_retry(self, store: Store) -> None:
        a_node(store)
        add(store, "x")
        job = run(store, "x", Exited(1), policy=Policy(backoff_base=7))
        assert job.run_at == store.runs.outlook().due == NOW + 12 * SECOND

    def test_is_over_once_promoted(self, store: Store) -> None:
        a_node(store)
        add(store, "a", run_at=NOW + MINUTE)
        add(store, "b", run_at=NOW + MINUTE)
        take_one(store, now=NOW + MINUTE)
        assert store.runs.outlook().due is None


class TestWaiting:
    def test_counts_what_could_still_come(self, mixed: Store) -> None:
        assert waiting(mixed) == 3
        assert waiting(mixed, ["one"]) == 2
        assert waiting(mixed, ["two"]) == 1
        assert waiting(mixed, ["one", "two", "three"]) == 3
        assert waiting(mixed, ["three"]) == 0

    def test_leaves_paused_queues_out(self, mixed: Store) -> None:
        mixed.settings.set_paused("one", paused=True, who="me", now=NOW)
        assert waiting(mixed) == 1
        assert waiting(mixed, ["one"]) == 0
        mixed.settings.set_paused("one", paused=False, who="me", now=NOW)
        assert waiting(mixed) == 3

    def test_comes_down_to_nothing(self, store: Store) -> None:
        a_node(store)
        add(store, "x")
        (job,) = take(store)
        assert waiting(store) == 0
        finish(store, [ended(job)])
        assert waiting(store) == 0
        assert states(store) == {"x": State.COMPLETED}

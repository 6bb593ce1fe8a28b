"""Enqueue and find again: every column, order, ids, and what happens to taken ones."""

import re
from collections import Counter
from typing import Any

import pytest

from queuectl.errors import DuplicateError
from queuectl.facts import Batch
from queuectl.filter import Filter
from queuectl.job import Cancelled, Exited, Job, NewJob, OneOfMany, State, Strategy
from queuectl.store import Store
from queuectl.values import replace
from tests.contract.tools import (
    MINUTE,
    NOW,
    Client,
    a_node,
    add,
    everything,
    ids,
    remove,
    run,
    states,
    take,
    the,
    transaction,
)

EVERYTHING = NewJob(
    id="job-1",
    command="echo 2",
    queue="queue-3",
    priority=4,
    run_at=NOW + 5,
    expires_at=NOW + 6,
    timeout=7,
    max_retries=8,
    backoff=Strategy.LINEAR,
    backoff_base=9.5,
    retry_delay=10,
    max_backoff=11,
    cwd="/folder/12",
    env={"NAME_13": "value 14", "NAME_15": ""},
    tags=("tag-16", "tag-17"),
    env_all=True,
    shell="shell-18",
    stdin=b"input 19",
    on_success="success 20",
    on_failure="failure 21",
    on_dead="dead 22",
    body_digest="digest 23",
    traceparent="00-0000000000000000000000000000023a-000000000000024b-01",
    tracestate="vendor=25",
    if_parent_fails="run",
    group="group 26",
    needs="cpu=28,gpu=0.29",
    requires=("label-30", "label-31"),
    parameters={"index": 26, "line": "a 'b'\n\udcff", "lr": "0.27"},
    bounds={"memory": 28, "user": "user 29"},
)


def _all(store: Store) -> list[Job]:
    return store.jobs.select(Filter(), limit=None, oldest=True)


class TestEnqueue:
    def test_every_field_is_kept(self, store: Store) -> None:
        store.jobs.enqueue([EVERYTHING], now=NOW)
        job = the(store, "job-1")
        assert job == Job(
            seq=job.seq,
            id="job-1",
            queue="queue-3",
            state=State.PENDING,
            priority=4,
            command="echo 2",
            argv=None,
            task=None,
            data=None,
            cwd="/folder/12",
            env={"NAME_13": "value 14", "NAME_15": ""},
            env_all=True,
            shell="shell-18",
            stdin_bytes=8,
            tags=("tag-16", "tag-17"),
            after=(),
            after_group=(),
            group="group 26",
            needs="cpu=28,gpu=0.29",
            requires=("label-30", "label-31"),
            devices={},
            if_parent_fails="run",
            parameters={"index": 26, "line": "a 'b'\n\udcff", "lr": "0.27"},
            bounds={"memory": 28, "user": "user 29"},
            open_parents=0,
            has_children=False,
            unique_key=None,
            tick=None,
            keys=(),
            vtime=0,
            unique_until=None,
            unique_for=None,
            on_success="success 20",
            on_failure="failure 21",
            on_dead="dead 22",
            hook=None,
            parked=None,
            handler="needs:cpu=28,gpu=0.29;label-30,label-31",
            run_at=NOW + 5,
            expires_at=NOW + 6,
            timeout=7,
            max_retries=8,
            backoff=Strategy.LINEAR,
            backoff_base=9.5,
            retry_delay=10,
            max_backoff=11,
            attempts=0,
            failures=0,
            crashes=0,
            node=None,
            worker=None,
            created_at=NOW,
            updated_at=NOW,
            started_at=None,
            finished_at=None,
            duration_ms=None,
            exit_code=None,
            error=None,
            reason=None,
            cancel_reason=None,
            forced=None,
            body_digest="digest 23",
            traceparent="00-0000000000000000000000000000023a-000000000000024b-01",
            tracestate="vendor=25",
        )

    def test_a_program_may_have_very_many_arguments(self, store: Store) -> None:
        # Whoever looks each of them up from the beginning takes minutes for that.
        argv = ("printf", *(f"file{n}.txt" for n in range(50_000)))
        assert the(store, store.jobs.enqueue_one(NewJob(argv=argv), now=NOW).id).argv == argv

    def test_a_single_job_is_returned_as_it_is_kept(self, store: Store) -> None:
        assert store.jobs.enqueue_one(EVERYTHING, now=NOW) == the(store, "job-1")
        bare = store.jobs.enqueue_one(NewJob(argv=("printf", "%s", "ä")), now=NOW)
        assert bare == the(store, bare.id)
        assert re.fullmatch("[a-z2-7]{12}", bare.id)
        assert ids(_all(store)) == ["job-1", bare.id]

    def test_each_single_job_is_returned_with_its_place(self, store: Store) -> None:
        jobs = [
            store.jobs.enqueue_one(NewJob(command="x", tags=("a", "b")), now=NOW) for _ in range(3)
        ]
        assert jobs == _all(store)

    def test_a_single_job_with_a_taken_id_is_refused(self, store: Store) -> None:
        add(store, "job-1")
        with pytest.raises(DuplicateError, match="'job-1' is taken"):
            store.jobs.enqueue_one(EVERYTHING, now=NOW)
        assert ids(_all(store)) == ["job-1"]
        assert the(store, "job-1").command != EVERYTHING.command

    @pytest.mark.parametrize("count", [1, 19, 20, 99, 100, 101, 250])
    def test_many_at_once_come_in_their_order_each_with_its_own(
        self, store: Store, count: int
    ) -> None:
        jobs = [
            NewJob(id=f"job {n}", command=f"echo {n}", priority=n, tags=(f"tag {n}",))
            for n in range(count)
        ]
        store.jobs.enqueue(jobs, now=NOW)
        kept = _all(store)
        assert [(job.id, job.command, job.priority, job.tags) for job in kept] == [
            (new.id, new.command, new.priority, new.tags) for new in jobs
        ]
        assert sum(group.jobs for group in store.jobs.counts()) == count

    @pytest.mark.parametrize("stretches", [[250], [150, 3, 250, 1, 1, 99, 101], [1] * 250])
    def test_what_is_like_a_model_has_all_of_it_but_what_is_its_own(
        self, store: Store, stretches: list[int]
    ) -> None:
        models = EVERYTHING, NewJob(id="bare", command="x")
        full, bare = (store.jobs.enqueue_one(model, now=NOW) for model in models)
        many: list[OneOfMany] = []
        expected = []
        for place, length in enumerate(stretches):
            model, kept = [(models[0], full), (models[1], bare)][place % 2]
            for n in range(len(many), len(many) + length):
                own: dict[str, Any] = {"id": f"job {n}", "command": f"echo {n}", "argv": None}
                if n % 3 == 1:
                    own |= {"command": None, "argv": ("printf", f"ä {n}")}
                own["parameters"] = {"index": n} if n % 5 == 1 else {}
                kept_as = f'{{"index": {n}}}' if own["parameters"] else None
                many.append((own["id"], own["command"], own["argv"], kept_as, model))
                expected.append(replace(kept, **own))
        store.jobs.enqueue(many, now=NOW)
        found = _all(store)[2:]
        assert [replace(job, seq=0) for job in found] == [replace(job, seq=0) for job in expected]
        tagged = store.jobs.select(Filter(tags=EVERYTHING.tags), limit=None)
        assert len(tagged) == len([job for job in (full, *expected) if job.tags])
        groups = Counter((job.queue, job.priority, job.timeout) for job in (full, bare, *expected))
        assert {
            (group.queue, group.priority, group.jobs, group.timed) for group in store.jobs.counts()
        } == {
            (queue, priority, jobs, jobs if timeout else 0)
            for (queue, priority, timeout), jobs in groups.items()
        }

    @pytest.mark.parametrize("count", [99, 100, 250])
    def test_many_may_have_arguments_and_no_command(self, store: Store, count: int) -> None:
        model = NewJob(argv=("printf",), env={"A": "b"}, timeout=5_000)
        store.jobs.enqueue(
            [(f"job {n}", None, ("printf", str(n)), None, model) for n in range(count)], now=NOW
        )
        kept = [(job.id, job.command, job.argv, job.env, job.timeout) for job in _all(store)]
        assert kept == [
            (f"job {n}", None, ("printf", str(n)), {"A": "b"}, 5_000) for n in range(count)
        ]

    @pytest.mark.parametrize(
        ("asked", "run_at", "expires_at"),
        [
            ({"delay": 500}, NOW + 500, None),
            ({"delay": 0}, NOW, None),
            ({"expire": 70}, NOW, NOW + 70),
            ({"expire": 70, "delay": 500}, NOW + 500, NOW + 570),
            ({"expire": 70, "run_at": NOW + 500}, NOW + 500, NOW + 570),
            ({"expire": 70, "run_at": NOW - 500}, NOW - 500, NOW + 70),
            ({"expire": 70, "expires_at": NOW + 6}, NOW, NOW + 6),
            ({"expire": 0}, NOW, None),
        ],
    )
    def test_durations_count_from_when_it_is_stored(
        self, store: Store, asked: dict[str, Any], run_at: int, expires_at: int | None
    ) -> None:
        store.jobs.enqueue([NewJob(id="many", command="x", **asked)], now=NOW)
        store.jobs.enqueue_one(NewJob(id="one", command="x", **asked), now=NOW)
        for id in ("many", "one"):
            job = the(store, id)
            assert (job.run_at, job.expires_at, job.created_at) == (run_at, expires_at, NOW)

    def test_what_is_not_said_stays_unsaid(self, store: Store) -> None:
        job = add(store, "bare")
        assert (job.queue, job.priority, job.run_at) == ("default", 0, NOW)
        assert (job.env, job.tags, job.cwd, job.argv) == ({}, (), None, None)
        assert (job.env_all, job.shell, job.stdin_bytes) == (False, None, None)
        policy = (job.timeout, job.max_retries, job.backoff, job.backoff_base, job.retry_delay)
        assert (*policy, job.max_backoff, job.expires_at) == (None,) * 7

    @pytest.mark.parametrize("value", [-(2**31), -1, 2**31 - 1])
    def test_any_32_bit_priority_is_kept(self, store: Store, value: int) -> None:
        assert add(store, "x", priority=value).priority == value

    @pytest.mark.parametrize(
        "text",
        [
            "a",
            "ä日🦊",
            "line\nline",
            "\x1b[31m\x01\x7f",
            "'\"\\$`;--",
            "%_!?",
            "{jobs} :id",
            "x" * 2**20,
        ],
        ids=lambda text: f"{len(text)} {text[:6]!r}",
    )
    def test_any_text_survives(self, store: Store, text: str) -> None:
        store.jobs.enqueue(
            [
                NewJob(id="1", command=text, env={"A": text}, cwd="/" + text),
                NewJob(id="2", argv=(text, "", text)),
                NewJob(id=text[:200], command="x", queue=text[:100], tags=(text[:100],)),
            ],
            now=NOW,
        )
        one, two = the(store, "1"), the(store, "2")
        assert (one.command, one.env, one.cwd) == (text, {"A": text}, "/" + text)
        assert two.argv == (text, "", text)
        three = the(store, text[:200])
        assert (three.queue, three.tags) == (text[:100], (text[:100],))

    def test_strategies_are_kept(self, store: Store) -> None:
        for strategy in Strategy:
            assert add(store, strategy.value, backoff=strategy).backoff == strategy

    def test_the_order_of_the_request_is_the_order_of_the_line(self, store: Store) -> None:
        names = [f"job {n * 7919 % 100}" for n in range(100)]
        batch = store.jobs.enqueue([NewJob(id=name, command="x") for name in names], now=NOW)
        assert batch == Batch(ids=tuple(names))
        places = [the(store, name).seq for name in names]
        assert places == sorted(set(places))
        a_node(store)
        assert ids(take(store, 100)) == names

    def test_ids_are_made_of_12_characters_of_base32(self, store: Store) -> None:
        made = store.jobs.enqueue([NewJob(command="x")] * 500, now=NOW).ids
        assert len(set(made)) == 500
        assert all(re.fullmatch("[a-z2-7]{12}", id) for id in made)
        assert {letter for id in made for letter in id} == set("abcdefghijklmnopqrstuvwxyz234567")

    def test_made_and_given_ids_may_be_mixed(self, store: Store) -> None:
        jobs = [NewJob(command="1"), NewJob(id="mine", command="2"), NewJob(command="3")]
        found = store.jobs.enqueue(jobs, now=NOW).ids
        assert found[1] == "mine"
        assert [the(store, id).command for id in found] == ["1", "2", "3"]

    def test_nothing_may_be_enqueued(self, store: Store) -> None:
        assert store.jobs.enqueue([], now=NOW) == Batch(ids=())
        assert states(store) == {}

    def test_what_is_stored_is_there_for_others_at_once(self, store: Store, other: Store) -> None:
        job = add(store, "x")
        assert other.jobs.get("x") == job


class TestDuplicates:
    def test_a_taken_id_leaves_the_first_job_and_stores_nothing(
        self, store: Store, client: Client
    ) -> None:
        store.jobs.enqueue([EVERYTHING], now=NOW)
        before = everything(client)
        jobs = [NewJob(id=id, command="other", tags=("t",)) for id in ("new-1", "job-1", "new-2")]
        with pytest.raises(DuplicateError):
            store.jobs.enqueue(jobs, now=NOW + 1)
        assert everything(client) == before

    @pytest.mark.parametrize("position", [0, 1, 2, 600])
    def test_the_message_names_the_taken_id(self, store: Store, position: int) -> None:
        add(store, "taken")
        names = [f"new-{n}" for n in range(max(2, position))]
        names.insert(position, "taken")
        with pytest.raises(DuplicateError, match="The id 'taken' is taken"):
            store.jobs.enqueue([NewJob(id=name, command="x") for name in names], now=NOW)

    @pytest.mark.parametrize("names", [["a", "a"], ["a", "b", "b"], ["a", "b", "c", "b"]])
    def test_an_id_given_twice_in_one_request_is_named(
        self, store: Store, names: list[str]
    ) -> None:
        twice = next(name for name in names if names.count(name) == 2)
        with pytest.raises(DuplicateError, match=f"The id '{twice}' is given twice"):
            store.jobs.enqueue([NewJob(id=name, command="x") for name in names], now=NOW)
        assert states(store) == {}

    def test_an_id_may_differ_in_letter_case_or_spaces(self, store: Store) -> None:
        for id in ("job", "Job", "JOB", "job ", "jób"):
            add(store, id)
        assert len(states(store)) == 5

    def test_finished_ids_stay_taken_until_they_are_removed(self, store: Store) -> None:
        a_node(store)
        for id, outcome in (("done", Exited(0)), ("off", Cancelled("why"))):
            add(store, id)
            job = run(store, id, outcome)
            with pytest.raises(DuplicateError):
                add(store, id, now=NOW + MINUTE)
            assert the(store, id) == job
            assert take(store, now=NOW + MINUTE) == []
            assert remove(store, job)
            add(store, id, now=NOW + MINUTE, run_at=NOW + 10 * MINUTE)

    def test_after_the_error_the_store_goes_on(self, store: Store, other: Store) -> None:
        add(store, "x")
        with pytest.raises(DuplicateError):
            add(store, "x")
        add(other, "y")
        add(store, "z")
        assert list(states(store)) == ["x", "y", "z"]

    @pytest.mark.needs("transactions")
    def test_an_error_handled_inside_a_transaction_stores_none_of_the_request(
        self, store: Store
    ) -> None:
        add(store, "taken")
        with transaction(store):
            add(store, "before")
            with pytest.raises(DuplicateError):
                store.jobs.enqueue(
                    [NewJob(id="new", command="x"), NewJob(id="taken", command="x")], now=NOW
                )
            add(store, "after")
        assert list(states(store)) == ["taken", "before", "after"]


class TestSkipDuplicates:
    def test_stores_the_others_and_says_which_were_skipped(
        self, store: Store, client: Client
    ) -> None:
        first = add(store, "taken", priority=9)
        jobs = [NewJob(id=id, command="x") for id in ("c", "taken", "a", "b")]
        batch = store.jobs.enqueue(jobs, now=NOW + 1, skip_duplicates=True)
        assert batch == Batch(ids=("c", "a", "b"), duplicates=("taken",))
        assert list(states(store)) == ["taken", "c", "a", "b"]
        assert the(store, "taken") == first

    def test_an_id_given_twice_is_stored_once_and_reported(self, store: Store) -> None:
        jobs = [NewJob(id="x", command="first"), NewJob(id="x", command="second")]
        batch = store.jobs.enqueue(jobs, now=NOW, skip_duplicates=True)
        assert batch == Batch(ids=("x",), duplicates=("x",))
        assert the(store, "x").command == "first"

    def test_all_may_be_taken(self, store: Store) -> None:
        add(store, "x")
        batch = store.jobs.enqueue([NewJob(id="x", command="y")], now=NOW, skip_duplicates=True)
        assert batch == Batch(ids=(), duplicates=("x",))

    def test_made_ids_are_returned_in_their_place(self, store: Store) -> None:
        add(store, "taken")
        jobs = [NewJob(command="1"), NewJob(id="taken", command="2"), NewJob(command="3")]
        one, three = store.jobs.enqueue(jobs, now=NOW, skip_duplicates=True).ids
        assert [the(store, id).command for id in (one, three)] == ["1", "3"]


class TestGet:
    def test_finds_exactly_that_id(self, store: Store) -> None:
        add(store, "abcdef")
        assert the(store, "abcdef").id == "abcdef"
        for id in ("abcde", "abcdefg", "ABCDEF", "abcdef ", "", "%", "abcde_"):
            assert store.jobs.get(id) is None

    @pytest.mark.parametrize("id", ["\udcff", "\ud800", "a\0b", "x" * 100_000])
    def test_what_can_be_no_id_is_not_found(self, store: Store, id: str) -> None:
        add(store, "a")
        assert store.jobs.get(id) is None
        assert store.jobs.like(id) == []
        assert store.jobs.states([id]) == {}


class TestIdsLike:
    @pytest.fixture(autouse=True)
    def jobs(self, store: Store) -> None:
        for id in (
            "beta",
            "alpha",
            "alp",
            "alphabet",
            "al%x",
            "al_x",
            "ALPHA",
            "älpha",
            "alé",
            "b",
        ):
            add(store, id)

    @pytest.mark.parametrize(
        ("prefix", "found"),
        [
            ("alpha", ["alpha", "alphabet"]),
            ("alph", ["alpha", "alphabet"]),
            ("alphabet", ["alphabet"]),
            ("alphabets", []),
            ("al%", ["al%x"]),
            ("al_", ["al_x"]),
            ("ä", ["älpha"]),
            ("alé", ["alé"]),
            ("AL", ["ALPHA"]),
            ("b", ["b", "beta"]),
        ],
    )
    def test_finds_prefixes_in_order(self, store: Store, prefix: str, found: list[str]) -> None:
        assert store.jobs.like(prefix) == found

    def test_an_empty_prefix_fits_all(self, store: Store) -> None:
        assert len(store.jobs.like("", limit=100)) == 10

    def test_gives_at_most_the_limit(self, store: Store) -> None:
        assert store.jobs.like("al", limit=2) == ["al%x", "al_x"]


class TestTagsLike:
    """Tags are found by how they begin, each once, however many jobs have them."""

    @pytest.fixture(autouse=True)
    def jobs(self, store: Store) -> None:
        tags = ["nightly", "night", "ni%x", "ni_x", "Night", "nächtlich"]
        new = [NewJob(command="true", tags=("all", tag)) for tag in tags]
        store.jobs.enqueue(new * 2, now=store.clock.now())

    @pytest.mark.parametrize(
        ("prefix", "found"),
        [
            ("night", ["night", "nightly"]),
            ("nightly", ["nightly"]),
            ("nightlys", []),
            ("ni%", ["ni%x"]),
            ("ni_", ["ni_x"]),
            ("N", ["Night"]),
            ("nä", ["nächtlich"]),
            ("\0", []),
        ],
    )
    def test_finds_prefixes_in_order(self, store: Store, prefix: str, found: list[str]) -> None:
        assert store.jobs.like(prefix, tags=True) == found

    def test_an_empty_prefix_fits_all(self, store: Store) -> None:
        found = ["Night", "all", "ni%x", "ni_x", "night", "nightly", "nächtlich"]
        assert store.jobs.like("", tags=True) == found

    def test_gives_at_most_the_limit(self, store: Store) -> None:
        assert store.jobs.like("ni", limit=2, tags=True) == ["ni%x", "ni_x"]

    def test_what_is_gone_leaves_no_tag(self, store: Store) -> None:
        for job in store.jobs.select(Filter(tags=("night",)), limit=None):
            remove(store, job)
        assert store.jobs.like("night", tags=True) == ["nightly"]

"""What runs may use: how it is read, laid over each other, and what of it a host enforces."""

import resource
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuectl.bound_values import NAMES, laid_over, read_bound, read_bounds
from queuectl.bounds import told
from queuectl.errors import BadJobError
from queuectl.fields import REQUESTED
from queuectl.guard.plan import Powers, note, plan, refusal
from queuectl.request import read_values

UNLIMITED = resource.RLIM_INFINITY
ALL = frozenset(("memory", "pids", "cpu", "io"))
READ: list[tuple[str, object, Any]] = [
    ("memory", "512M", 512 * 2**20),
    ("memory", "8G", 2**33),
    ("memory", "1.5Gi", 3 * 2**29),
    ("memory", 2**20, 2**20),
    ("cpus", "1.5", 1.5),
    ("cpus", 2, 2.0),
    ("cpus", 0.01, 0.01),
    ("cpu_time", "60", 60_000),
    ("cpu_time", "1h30m", 5_400_000),
    ("cpu_time", 0.5, 500),
    ("cpu_time", timedelta(minutes=2), 120_000),
    ("nofile", "1024", 1_024),
    ("nproc", 64, 64),
    ("nice", "-20", -20),
    ("nice", 19, 19),
    ("user", "www-data", "www-data"),
    ("user", "1000", "1000"),
    ("read_only_root", True, True),
    ("no_network", "yes", True),
    ("best_effort", "true", True),
    ("image", "docker.io/library/python:3.12", "docker.io/library/python:3.12"),
    ("mounts", "/data", ["/data:/data:rw"]),
    ("mounts", ["/a:/b:ro", "/c:/d"], ["/a:/b:ro", "/c:/d:rw"]),
]
REFUSED: list[tuple[str, object, str]] = [
    ("memory", "lots", "a size such as"),
    ("memory", "1023k", "a size of at least 1MiB"),
    ("memory", True, "a size such as"),
    ("cpus", "many", "a number of cores"),
    ("cpus", 0.001, "a number of cores"),
    ("cpus", -1, "a number of cores"),
    ("cpus", "nan", "a number of cores"),
    ("cpus", True, "a number of cores"),
    ("cpu_time", 0.001, "at least 10 ms"),
    ("cpu_time", [1], "a duration such as"),
    ("cpus", "\N{FULLWIDTH DIGIT ONE}", "a number of cores"),
    ("nofile", 2, "a whole number from 3"),
    ("nofile", "\N{FULLWIDTH DIGIT ONE}\N{FULLWIDTH DIGIT TWO}", "a whole number from 3"),
    ("nproc", 1.5, "a whole number from 1"),
    ("nproc", True, "a whole number from 1"),
    ("nice", 20, "a whole number from -20 to 19"),
    ("user", "a:b", "the name of a user"),
    ("user", "", "the name of a user"),
    ("user", 5, "the name of a user"),
    ("no_network", 1, "true or false"),
    ("image", "--privileged", "the name of an image"),
    ("image", "a b", "the name of an image"),
    ("mounts", "data:/data", "SOURCE[:TARGET][:ro], with whole paths"),
    ("mounts", ["/a:/b:/c"], "SOURCE[:TARGET][:ro], with whole paths"),
    ("mounts", ["/a"] * 33, "up to 32 texts"),
    ("no_network", "maybe", "true or false"),
]


class TestReading:
    @pytest.mark.parametrize(("name", "said", "kept"), READ)
    def test_takes(self, name: str, said: object, kept: object) -> None:
        found = read_bound(name, said)
        assert found == kept
        assert type(found) is type(kept)

    @pytest.mark.parametrize(("name", "said", "wanted"), REFUSED)
    def test_refuses_in_words(self, name: str, said: object, wanted: str) -> None:
        with pytest.raises(BadJobError) as caught:
            read_bound(name, said)
        assert str(caught.value).startswith(f"{name} takes {wanted}")
        assert caught.value.field == name

    def test_a_time_that_is_none_is_refused(self) -> None:
        with pytest.raises(BadJobError, match=r"^Bad cpu_time: "):
            read_bound("cpu_time", "soon")

    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize("nothing", [None, 0, "0", False, "none"])
    def test_nothing_takes_it_away(self, name: str, nothing: object) -> None:
        assert read_bound(name, nothing) is None

    def test_each_is_a_field(self) -> None:
        assert [f.name for f in REQUESTED if f.within == "bounds"] == list(NAMES)
        assert all(f.is_work for f in REQUESTED if f.within == "bounds" or f.name == "bounds")

    def test_several_by_name(self) -> None:
        said = {"memory": "1G", "cpu_time": 90, "no_network": False}
        assert read_bounds(said) == {"memory": 2**30, "cpu_time": 90_000, "no_network": None}
        assert read_bounds({"cpu_time": 90}, in_milliseconds=True) == {"cpu_time": 90}

    def test_what_is_none_of_them_is_refused(self) -> None:
        with pytest.raises(BadJobError, match=r"^Unknown bound 'memry'; did you mean 'memory'"):
            read_bounds({"memry": 1})
        with pytest.raises(BadJobError, match=r"^bounds must map names to values"):
            read_bounds(["memory"])

    def test_a_request_gathers_them(self) -> None:
        read = read_values({"command": "true", "memory": "1M", "nice": 3}, now=0)
        assert read == {"command": "true", "bounds": {"memory": 2**20, "nice": 3}}
        both = {"command": "true", "bounds": {"nice": 3, "cpus": 1}, "nice": 4}
        assert read_values(both, now=0)["bounds"] == {"nice": 4, "cpus": 1.0}

    def test_some_laid_over_others(self) -> None:
        weak = {"user": "a", "memory": 1, "nice": 2}
        strong = {"memory": None, "nice": 3, "cpus": 1.0}
        assert list(laid_over(strong, weak).items()) == [("cpus", 1.0), ("nice", 3), ("user", "a")]

    def test_in_words(self) -> None:
        bounds = {"memory": 512 * 2**20, "cpus": 1.5, "cpu_time": 90_000, "no_network": True}
        assert told(bounds) == "memory 512MiB, cpus 1.5, cpu-time 90s, no-network"
        assert told({}) == "none"

    @given(
        st.dictionaries(
            st.sampled_from(NAMES),
            st.integers() | st.text() | st.none() | st.lists(st.text()),
        )
    )
    def test_whatever_comes_it_is_read_or_refused(self, said: dict[str, Any]) -> None:
        try:
            found = read_bounds(said)
        except BadJobError:
            return
        again = read_bounds(found, in_milliseconds=True)
        assert again == found


class TestPlan:
    def test_control_groups_bound_what_they_can(self) -> None:
        made = plan({"memory": 2**29, "cpus": 1.5, "nproc": 64}, Powers(controllers=ALL))
        assert made.needs_group
        assert dict(made.set) == {
            "memory.max": str(2**29),
            "memory.swap.max": "0",
            "memory.oom.group": "1",
            "cpu.max": "150000 100000",
            "pids.max": "64",
        }
        assert (made.limits, made.refused, made.watched) == ([], [], False)

    @pytest.mark.parametrize(
        ("bounds", "controller"),
        [({"memory": 2**29}, "memory"), ({"cpus": 2.0}, "cpu")],
    )
    def test_without_them_it_says_what_that_takes(self, bounds: Any, controller: str) -> None:
        (name,) = bounds
        others = ALL - {controller}
        for powers, why in (
            (Powers(why_no_group="nobody delegated it"), "nobody delegated it"),
            (Powers(controllers=others), "which the node doesn't have"),
            (Powers(controllers=others, of_v1={controller}), "cgroup v1 has it on this host"),
        ):
            made = plan(bounds, powers)
            assert not made.set
            assert not made.needs_group
            (said,) = made.refused
            assert said.startswith(f"{name} ")
            assert f"{controller} controller" in said
            assert why in said

    def test_processes_of_a_user_are_bounded_by_a_limit(self) -> None:
        nowhere = Powers(why_no_group="no", is_root=True, name="root")
        made = plan({"nproc": 5, "user": "web"}, nowhere)
        assert made.limits == [(resource.RLIMIT_NPROC, 5, 5)]
        assert made.bounds_processes
        (said,) = plan({"nproc": 5}, nowhere).refused
        assert "another user" in said
        mine = plan({"nproc": 5}, Powers(why_no_group="no", name="me"))
        assert mine.limits == [(resource.RLIMIT_NPROC, 5, 5)]

    def test_cpu_time_is_counted_and_bounded_by_the_kernel_a_moment_later(self) -> None:
        made = plan({"cpu_time": 1_500}, Powers(why_no_group="no"))
        assert (made.cpu_time, made.needs_group) == (1.5, False)
        assert made.limits == [(resource.RLIMIT_CPU, 3, 7)]
        assert plan({"cpu_time": 1_500}, Powers()).needs_group

    def test_files_up_to_what_there_can_be(self) -> None:
        assert plan({"nofile": 100}, Powers(most_files=100)).limits == [
            (resource.RLIMIT_NOFILE, 100, 100)
        ]
        assert plan({"nofile": 101}, Powers(most_files=UNLIMITED)).refused == []
        (said,) = plan({"nofile": 101}, Powers(most_files=100)).refused
        assert said == "nofile 101: processes of this node can have 100 at most"
        assert plan({"nofile": 101}, Powers(most_files=100, is_root=True)).refused == [said]

    def test_only_root_goes_before_others_or_is_somebody_else(self) -> None:
        assert plan({"nice": 5}, Powers()).nice == 5
        assert plan({"nice": -5}, Powers(is_root=True)).nice == -5
        made = plan({"nice": -5}, Powers())
        assert made.nice is None
        assert "root" in made.refused[0]
        assert plan({"user": "web"}, Powers(is_root=True, name="root")).user == "web"
        me = plan({"user": "me"}, Powers(name="me"))
        assert (me.user, me.denied) == (None, None)
        other = plan({"user": "web"}, Powers(name="me"))
        assert other.user is None
        assert other.denied is not None
        assert "runs as me" in other.denied

    def test_the_guard_looks_after_memory_only_where_nobody_else_does(self) -> None:
        assert plan({"memory": 2**29}, Powers(why_no_group="no")).watched
        assert not plan({"memory": 2**29}, Powers(controllers=ALL)).watched

    def test_its_sentences(self) -> None:
        assert refusal(["a: b", "c: d"]) == "a: b; c: d (--best-effort would run it without)"
        assert note(["a: b", "c: d"]) == "not enforced: a: b; c: d"

    def test_of_memory_that_is_watched_they_say_so(self) -> None:
        how = "watched by sampling, not by the kernel"
        memory, cpus = "memory 1MiB: x", "cpus 1: y"
        assert refusal([memory], watched=True) == f"{memory} (with --best-effort it is {how})"
        assert refusal([memory, cpus], watched=True) == (
            f"{memory}; {cpus} (--best-effort would run it without; memory is {how} then)"
        )
        assert note([memory], watched=True) == f"{how}: {memory}"
        assert note([memory, cpus], watched=True) == f"{how}: {memory}; not enforced: {cpus}"

"""Amounts, devices, labels and classes of need."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuectl.job import base_handler
from queuectl.resources import (
    NOTHING,
    WHOLE,
    AmountError,
    Holding,
    Needs,
    Room,
    Stock,
    class_of,
    needs_of,
    read_amount,
    read_labels,
    read_needs,
    read_resources,
    room_of,
    told_needs,
    with_needs,
)


class TestAmounts:
    @pytest.mark.parametrize(
        ("text", "many"),
        [
            ("2", 2_000),
            ("0.5", 500),
            ("0.001", 1),
            ("1.25", 1_250),
            ("8G", 8 * 2**30 * 1000),
            ("8g", 8 * 2**30 * 1000),
            ("1.5k", 1_536_000),
            ("2MiB", 2 * 2**20 * 1000),
            ("1TB", 2**40 * 1000),
            ("0", 0),
        ],
    )
    def test_are_exact(self, text: str, many: int) -> None:
        assert read_amount("disk", text) == many

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "x",
            "-1",
            "1.0005",
            "1e3",
            "8Q",
            "1 2",
            "nan",
            "9" * 17,
            ".5",
            "9999999T",
            "\N{FULLWIDTH DIGIT ONE}",
            "1.\N{ARABIC-INDIC DIGIT FIVE}",
            "8\N{KELVIN SIGN}",
        ],
    )
    def test_others_are_refused(self, text: str) -> None:
        with pytest.raises(AmountError, match=r"^disk="):
            read_amount("disk", text)

    def test_numbers_are_as_good_as_text(self) -> None:
        assert read_needs({"cpu": 2, "gpu": 0.5, "mem": "8G"}) == read_needs(
            "mem=8G,gpu=.5,cpu=2".replace("=.5", "=0.5")
        )
        with pytest.raises(AmountError):
            read_needs({"cpu": True})

    def test_memory_in_bytes_is_most_likely_meant_otherwise(self) -> None:
        with pytest.raises(AmountError, match="write mem=8G or 8M"):
            read_needs("mem=8")

    @given(st.integers(0, 2**50), st.sampled_from(["cpu", "disk"]))
    def test_come_back_as_they_are_written(self, many: int, name: str) -> None:
        needs = Needs(((name, many),)) if many else NOTHING
        assert needs_of(with_needs("", needs)) == needs


class TestNeeds:
    def test_have_one_form(self) -> None:
        assert str(Needs(read_needs("gpu=1, cpu=2.50,mem=1G"))) == "cpu=2.5,gpu=1,mem=1073741824"
        assert read_needs(["gpu=1", "cpu=2"]) == read_needs("cpu=2,gpu=1")
        assert read_needs("cpu=0") == ()

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("gpu", "write NAME=AMOUNT"),
            ("gpu=", "write NAME=AMOUNT"),
            ("gpu=1,gpu=2", "gpu twice"),
            ("GPU=1", "small letters"),
            ("g pu=1", "small letters"),
            ("db=1", "QUEUECTL_DB says something else"),
            ("workers=1", "QUEUECTL_WORKERS says something else"),
            ("gpu=1.5", "of several whole ones"),
            (",".join(f"r{n}=1" for n in range(17)), "at most 16"),
        ],
    )
    def test_that_make_no_sense_are_refused(self, text: str, why: str) -> None:
        with pytest.raises(AmountError, match=why):
            read_needs(text)

    def test_are_text_or_an_object(self) -> None:
        with pytest.raises(AmountError, match="neither text"):
            read_needs(5)

    def test_too_many_for_a_line_are_refused(self) -> None:
        labels = tuple(f"{'x' * 60}{n}" for n in range(8))
        with pytest.raises(AmountError, match="200 characters"):
            class_of("cpu=1", labels)


class TestLabels:
    def test_are_words_in_order(self) -> None:
        assert read_labels("ssd, eu-west") == ("eu-west", "ssd")
        assert read_labels(["b", "a", "b"]) == ("a", "b")

    @pytest.mark.parametrize("labels", [[None], [True, 1.5], ["a", 2], [["a"]]])
    def test_labels_are_texts(self, labels: list[object]) -> None:
        with pytest.raises(AmountError, match="a label is a text such as ssd"):
            read_labels(labels)

    @pytest.mark.parametrize("text", ["", "a b", "ü", ";", "a=b", "x" * 64])
    def test_others_are_refused(self, text: str) -> None:
        with pytest.raises(AmountError, match="a label is a word"):
            read_labels(text)

    def test_nine_are_too_many(self) -> None:
        with pytest.raises(AmountError, match="at most 8"):
            read_labels(list("abcdefghi"))


class TestClasses:
    def test_stand_before_what_handles_the_job(self) -> None:
        assert class_of("cpu=2", ("ssd",), "type:my mail") == "needs:cpu=2;ssd type:my mail"
        assert base_handler("needs:cpu=2;ssd type:my mail") == "type:my mail"
        assert base_handler("needs:cpu=2") == base_handler("") == ""
        assert class_of(None, (), "type:x") == "type:x"
        assert class_of(None, ("ssd",)) == "needs:;ssd"

    def test_are_read_only_in_their_one_form(self) -> None:
        assert needs_of("needs:cpu=2;ssd type:x") == Needs((("cpu", 2_000),), ("ssd",))
        assert needs_of("") == needs_of("type:x") == NOTHING
        for text in (
            "needs:cpu=2.0",
            "needs:mem=1,cpu=2",
            "needs:cpu",
            "needs:;b,a",
            "needs:cpu=1;",
        ):
            assert needs_of(text) is None

    def test_are_said_in_words(self) -> None:
        needs = needs_of("needs:cpu=2,gpu=0.5,mem=8589934592;nvme,ssd")
        assert needs is not None
        assert told_needs(needs) == "cpu=2, gpu=0.5, mem=8G and labels nvme, ssd"


class TestResources:
    def test_have_one_form(self) -> None:
        assert read_resources("mem=32G,gpu=4,cpu=8") == "cpu=8,gpu=[0-3],mem=34359738368"
        assert read_resources("gpu=[0,2,5-7]") == "gpu=[0,2,5-7]"
        assert read_resources("fpga=[1,0]") == "fpga=[0-1]"
        assert read_resources("license=2.5") == "license=2.5"
        assert read_resources("gpu=0") == "gpu=[]"

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("gpu=[a]", "devices are listed"),
            ("gpu=[0", "devices are listed"),
            ("gpu=[0,\N{FULLWIDTH DIGIT ONE}]", "devices are listed"),
            ("gpu=1.5", "whole devices"),
            ("gpu=2000", "1024 at most"),
            ("gpu=[0-5000]", "1024 at most"),
            ("cpu=1,cpu=2", "twice"),
            ("gpu=[5-1]", r"gpu=\[5-1\]; 5-1 goes down, so write 1-5"),
            ("gpu=[]", r"gpu=\[\]; for none of them, write gpu=0"),
            ("gpu=[0,0]", "device 0 twice"),
            ("fpga=[0-3,2]", "device 2 twice"),
        ],
    )
    def test_that_make_no_sense_are_refused(self, text: str, why: str) -> None:
        with pytest.raises(AmountError, match=why):
            read_resources(text)

    def test_totals_count_devices(self) -> None:
        assert room_of("cpu=8,gpu=[0,2]").totals() == {"cpu": 8_000, "gpu": 2_000}


def take(room: Room, text: str) -> tuple[int, ...] | None:
    given = room.take(Needs(read_needs(text)))
    return None if given is None else given.get("gpu", ())


class TestRoom:
    def test_shares_go_where_least_is_left(self) -> None:
        room = room_of(read_resources("gpu=3"))
        assert take(room, "gpu=0.5") == (0,)
        assert take(room, "gpu=0.25") == (0,)
        assert take(room, "gpu=0.5") == (1,)
        assert take(room, "gpu=0.25") == (0,)
        assert take(room, "gpu=1") == (2,)
        assert take(room, "gpu=1") is None
        assert take(room, "gpu=0.5") == (1,)
        assert take(room, "gpu=0.001") is None

    def test_halves_of_two_are_no_whole_one(self) -> None:
        room = room_of(read_resources("gpu=2"))
        room.use(Needs((("gpu", 500),)), {"gpu": (0,)})
        room.use(Needs((("gpu", 500),)), {"gpu": (1,)})
        assert take(room, "gpu=1") is None
        assert room.totals() == {"gpu": 1_000}

    def test_of_other_pools_neither(self) -> None:
        room = room_of(read_resources("fpga=[0-3]"))
        assert not room.fits(Needs(read_needs("fpga=1.5")))
        assert room.fits(Needs(read_needs("fpga=4")))

    def test_all_or_nothing_is_taken(self) -> None:
        room = room_of(read_resources("cpu=4,gpu=1"))
        assert room.take(Needs(read_needs("cpu=2,gpu=2"))) is None
        assert room.totals() == {"cpu": 4_000, "gpu": 1_000}

    def test_what_was_taken_away_from_a_node_may_be_in_use(self) -> None:
        stock = Stock("cpu=2", [Holding(1, Needs((("cpu", 3_000),)), {})])
        assert stock.room().totals() == {"cpu": -1_000}
        assert not stock.room().fits(Needs((("cpu", 1),)))

    @given(
        st.integers(1, 6),
        st.lists(st.sampled_from([100, 250, 300, 500, 700, 1000, 2000, 3000]), max_size=40),
        st.randoms(),
    )
    def test_no_device_is_ever_given_out_beyond_itself(
        self, devices: int, wanted: list[int], chance: st.DrawFn
    ) -> None:
        """Whatever comes and goes, and in which order."""
        stock = Stock(read_resources(f"gpu={devices}"))
        held: list[Holding] = []
        for many in wanted:
            needs = Needs((("gpu", many),))
            room = Stock(stock.resources, held).room()
            given = room.take(needs)
            if given is None:
                if held and chance.random() < 0.7:  # type: ignore[attr-defined]
                    held.pop(chance.randrange(len(held)))  # type: ignore[attr-defined]
                continue
            held.append(Holding(0, needs, given))
            used = dict.fromkeys(range(devices), 0)
            for one in held:
                (_, much) = one.needs.amounts[0]
                assert len(set(one.devices["gpu"])) == max(1, much // WHOLE)
                for at in one.devices["gpu"]:
                    used[at] += min(much, WHOLE)
            assert max(used.values()) <= WHOLE
            assert all(left >= 0 for left in room.devices["gpu"].values())

"""What a queue allows, by itself: rates, gates, shares, and when it is full."""

import pytest

from queuectl.errors import UsageError
from queuectl.limits import (
    UNIT,
    Crowd,
    Full,
    Gate,
    Limits,
    Place,
    Rate,
    Shares,
    WhenFull,
    at_once_of,
    full,
    given_keys,
    key_of,
    limits_of_text,
    own_keys,
    own_limit,
    parse_rate,
    read_limits,
    refunded,
    sharing_key,
)

NOW = 1_762_606_800_000
IDLE = Place("node", 1)


class TestRate:
    @pytest.mark.parametrize(
        ("text", "rate"),
        [
            ("100/1m", Rate(100, 60_000, 100)),
            ("5/s", Rate(5, 1_000, 5)),
            (" 5 / 90s : 2 ", Rate(5, 90_000, 2)),
            ("1/1h30m", Rate(1, 5_400_000, 1)),
        ],
    )
    def test_is_read(self, text: str, rate: Rate) -> None:
        assert parse_rate(text) == rate
        assert parse_rate(str(rate)) == rate

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "5",
            "/1s",
            "5/",
            "0/1s",
            "-1/1s",
            "5/0s",
            "5/1s:0",
            "5/1s:x",
            "1.5/1s",
            "9" * 200,
            "\N{FULLWIDTH DIGIT ONE}/1s",
            "5/1s:\N{FULLWIDTH DIGIT ONE}",
        ],
    )
    def test_anything_else_is_one_sentence(self, text: str) -> None:
        with pytest.raises(UsageError) as caught:
            parse_rate(text)
        assert len(str(caught.value)) < 200

    @pytest.mark.parametrize("text", ["20/1s", "3/10s:1", "7/1m:2", "1/1s"])
    def test_no_span_has_more_than_the_rate_and_the_burst(self, text: str) -> None:
        rate = parse_rate(text)
        begun: list[int] = []
        used: dict[str, dict[str, float]] = {}
        for now in range(NOW, NOW + 30_000, 25):
            while True:
                gate = Gate(Limits(rates=(rate,)), [], used, 0, now)
                gate.ask((), 0, [IDLE])
                if gate.is_shut:
                    assert gate.closed_until is not None
                    assert now < gate.closed_until <= now + rate.spacing + 1
                    break
                used |= gate.charged
                begun.append(now)
        for first, start in enumerate(begun):
            for last in range(first, len(begun)):
                span = begun[last] - start
                assert last - first + 1 <= rate.burst + span / rate.spacing
        # And it is used: at the end as many have begun as could have.
        assert len(begun) >= int(30_000 / rate.spacing) + rate.burst - 2

    def test_what_is_given_back_can_be_used_again(self) -> None:
        rate = parse_rate("1/10s")
        gate = Gate(Limits(rates=(rate,)), [], {}, 0, NOW)
        gate.ask((), 0, [IDLE])
        back = {"": refunded((rate,), gate.charged[""], 1)}
        again = Gate(Limits(rates=(rate,)), [], back, 0, NOW)
        again.ask((), 0, [IDLE])
        assert not again.is_shut


class TestLimits:
    def test_come_back_from_their_text(self) -> None:
        import json

        limits = Limits(
            limit=3,
            rates=(parse_rate("5/1s"), parse_rate("100/1m:10")),
            key_limit=1,
            key_limits={"gpu": 2},
            key_rates=(parse_rate("1/1h"),),
            weights={"gold": 5},
            max_waiting=10,
            when_full=WhenFull.REJECT,
            defaults={"timeout": "5m"},
        )
        assert limits_of_text(json.dumps(limits.as_dict())) == limits
        assert Limits().as_dict() == {}

    def test_what_a_later_version_says_too_is_left_out(self) -> None:
        assert read_limits({"limit": 3, "moon": "full"}) == Limits(limit=3)

    def test_of_a_key(self) -> None:
        limits = Limits(key_limit=1, key_limits={"tenant": 2, "tenant=a": 3})
        assert [limits.limit_of(key) for key in ("x", "tenant=b", "tenant=a", "tenants=a")] == [
            1,
            2,
            3,
            1,
        ]


class TestOwnLimits:
    @pytest.mark.parametrize(
        ("key", "most"),
        [
            ("%4 nightly", 4),
            ("%12 a b", 12),
            ("%0 a", None),
            ("%4", None),
            ("%x a", None),
            ("%-1 a", None),
            ("%² a", None),
            ("4 nightly", None),
            ("%", None),
            ("", None),
        ],
    )
    def test_are_said_by_the_key(self, key: str, most: int | None) -> None:
        assert own_limit(key) == most
        assert Limits().limit_of(key) == most
        assert Limits(key_limit=9, key_limits={key: 7}).limit_of(key) == (most or 7)

    def test_are_no_business_of_shares_weights_and_rates(self) -> None:
        keys = ("%4 a", "gold", "%2 b")
        assert given_keys(keys) == ("gold",)
        assert own_keys(keys) == ("%4 a", "%2 b")
        assert (sharing_key(keys), sharing_key(("%4 a",)), sharing_key(())) == ("gold", "", "")
        assert at_once_of(keys) == "4 a"
        assert at_once_of(("gold",)) is None
        assert key_of("4 a") == "%4 a"
        limits = Limits(weights={"gold": 4, "%4 a": 9}, key_rates=(parse_rate("1/10s"),))
        assert limits.weight_of(keys) == 4
        shares = Shares(limits, 7, {})
        assert [shares.place(keys) for _ in range(2)] == [7, 7 + UNIT // 4]
        assert list(shares.keys) == ["gold"]
        gate = Gate(limits, [], {}, 0, NOW)
        assert gate.ask(("%4 a",), 0, [IDLE]) == (0, None)
        assert gate.ask(("%4 a",), 0, [Place("node", 2)]) == (0, None)
        assert (gate.opening, gate.charged) == ({}, {})

    def test_hold_at_the_gate(self) -> None:
        gate = Gate(Limits(), [(("other", n), ("%2 a",)) for n in (1,)], {}, 0, NOW)
        assert gate.ask(("%2 a",), 0, [IDLE]) == (0, None)
        assert gate.ask(("%2 a",), 0, [Place("node", 2)]) == (None, "%2 a")
        assert gate.room_of("%2 a") == 0
        assert gate.ask(("%2 b",), 0, [Place("node", 2)]) == (0, None)
        assert not gate.is_shut

    def test_fill_no_queue(self) -> None:
        limits = Limits(limit=1, when_full=WhenFull.REJECT)
        assert full(limits, ("%1 a",), Crowd(0, 0), Crowd(0, 9)) is None


class TestGate:
    def test_a_job_that_finds_no_room_takes_none(self) -> None:
        gate = Gate(Limits(limit=3, key_limit=1), [(("other", 1), ("k",))], {}, 0, NOW)
        assert gate.ask(("k", "l"), 0, [IDLE]) == (None, "k")
        assert gate.ask(("l",), 0, [IDLE]) == (0, None)
        assert gate.ask(("l",), 0, [Place("node", 2)]) == (None, "l")
        assert not gate.is_shut
        assert gate.ask((), 0, [Place("node", 2)]) == (0, None)
        assert gate.ask((), 0, [Place("node", 3)]) == (None, None)
        assert gate.is_shut

    def test_jobs_of_one_worker_take_one_slot(self) -> None:
        gate = Gate(Limits(limit=1, key_limit=1), [], {}, 0, NOW)
        places = [IDLE, Place("node", 2), Place("node", 1, ahead=True)]
        assert gate.ask(("k",), 0, places) == (0, None)
        assert gate.ask(("k",), 0, places[1:]) == (1, None)
        assert gate.ask(("k",), 0, places[1:2]) == (None, "k")
        assert gate.closed_until is not None

    def test_who_waits_for_the_slot_of_another_key_leaves_others_half(self) -> None:
        gate = Gate(Limits(key_limit=2), [(("node", 1), ("k",))], {}, 0, NOW)
        ahead = [Place("node", 1, ahead=True)]
        assert gate.ask(("l",), 0, ahead) == (0, None)
        gate = Gate(Limits(key_limit=2), [(("a", 1), ("l",)), (("node", 1), ("k",))], {}, 0, NOW)
        assert gate.ask(("l",), 0, ahead) == (None, None)
        assert gate.satisfied

    def test_a_rate_that_is_used_up_says_when_it_opens(self) -> None:
        gate = Gate(Limits(key_rates=(parse_rate("1/10s"),)), [], {}, 0, NOW)
        assert gate.ask(("k",), 0, [IDLE]) == (0, None)
        assert gate.ask(("k",), 0, [IDLE]) == (None, "k")
        assert gate.opening == {"k": NOW + 10_000}


class TestShares:
    def test_weights_divide_the_unit(self) -> None:
        shares = Shares(Limits(weights={"a": 4}), 7, {})
        assert [shares.place(("a",)) for _ in range(3)] == [7, 7 + UNIT // 4, 7 + UNIT // 2]
        assert [shares.place(("b", "a")), shares.place(("b",))] == [7, 7 + UNIT]
        assert [shares.place(()), shares.place(())] == [7, 7 + UNIT]

    def test_a_key_begins_where_the_queue_is(self) -> None:
        assert Shares(Limits(), 5 * UNIT, {"a": UNIT}).place(("a",)) == 5 * UNIT


class TestFull:
    @pytest.mark.parametrize(
        ("limits", "keys", "whole", "same", "what"),
        [
            (Limits(), (), Crowd(9, 9), Crowd(9, 9), None),
            (Limits(limit=1), (), Crowd(1, 99), Crowd(0, 0), None),
            (Limits(max_waiting=2), (), Crowd(5, 1), Crowd(0, 0), None),
            (Limits(max_waiting=2), (), Crowd(5, 2), Crowd(0, 0), Full.QUEUE),
            (Limits(limit=1, max_waiting=2), (), Crowd(0, 2), Crowd(0, 0), None),
            (Limits(limit=1, max_waiting=2), (), Crowd(1, 2), Crowd(0, 0), Full.QUEUE),
            (
                Limits(key_limit=1, when_full=WhenFull.REJECT),
                ("k",),
                Crowd(5, 5),
                Crowd(0, 1),
                Full.KEY,
            ),
            (
                Limits(key_limit=1, when_full=WhenFull.REJECT),
                ("k",),
                Crowd(5, 5),
                Crowd(0, 0),
                None,
            ),
            (
                Limits(limit=2, when_full=WhenFull.REJECT),
                (),
                Crowd(1, 1),
                Crowd(1, 1),
                Full.QUEUE,
            ),
        ],
    )
    def test_when(
        self, limits: Limits, keys: tuple[str, ...], whole: Crowd, same: Crowd, what: Full | None
    ) -> None:
        assert full(limits, keys, whole, same) == what

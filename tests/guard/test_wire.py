"""The words that a node and its guard have for each other: they must not change unnoticed."""

import marshal

import pytest

from queuectl.guard.wire import KINDS, Decoder, Ended, Extend, Release, Spawn, encode


def test_every_message_arrives_as_it_was_sent_however_it_is_cut() -> None:
    sent = [kind(*range(len(kind._fields))) for kind in KINDS.values()]
    decoder = Decoder()
    frames = encode(sent)
    heard = [message for byte in frames for message in decoder.feed(bytes([byte]))]
    assert heard == sent
    assert [type(message) for message in heard] == [type(message) for message in sent]
    assert decoder.unread == b""


def test_releases_of_one_dialect_understand_each_other() -> None:
    """A node that is restarted in place goes on with the guards of the one before it."""
    ended = Ended(4, 5, "x", 6, 7, 8, 9, (10, 11, 12, 13), "y")
    frames = encode([Spawn(1, {}), Release(2), Extend(3, None), ended])  # type: ignore[typeddict-item]
    assert marshal.loads(frames[4:]) == [
        ("spawn", 1, {}),
        ("withdraw", 2),
        ("lease", 3, None),
        ("ended", 4, 5, "x", 6, 7, 8, 9, (10, 11, 12, 13), "y"),
    ]


def test_what_is_no_message_is_an_error() -> None:
    body = marshal.dumps([("nonsense", 1)])
    with pytest.raises(KeyError, match="nonsense"):
        Decoder().feed(len(body).to_bytes(4, "little") + body)

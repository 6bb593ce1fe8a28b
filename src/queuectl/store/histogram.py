"""Buckets for durations: exact below 128 ms, within 1 % above, about 60 for every doubling.

A bucket is one integer, so that a histogram is rows of (bucket, count) that any store can add up.
"""

from collections.abc import Iterable

_EXACT_BITS = 7
_SUB = 1 << (_EXACT_BITS - 1)


def bucket_of(ms: int) -> int:
    """Return the bucket a duration falls into."""
    ms = max(0, ms)
    shift = max(0, ms.bit_length() - _EXACT_BITS)
    return shift * _SUB + (ms >> shift)


def middle_of(bucket: int) -> int:
    """Return the duration in the middle of a bucket."""
    if bucket < 2 * _SUB:
        return bucket
    shift = bucket // _SUB - 1
    low = (bucket - shift * _SUB) << shift
    return low + ((1 << shift) - 1) // 2


def quantile(buckets: Iterable[tuple[int, int]], share: float) -> float | None:
    """Return the duration below which this share of the counts lies; None without counts.

    With an even count the median is the mean of the two in the middle, as it should be.
    """
    ordered = sorted(buckets)
    total = sum(count for _, count in ordered)
    if total == 0:
        return None
    position = share * (total - 1)
    low = _at(ordered, int(position))
    high = _at(ordered, min(int(position) + 1, total - 1))
    return low + (high - low) * (position - int(position))


def _at(ordered: list[tuple[int, int]], index: int) -> int:
    seen = 0
    for bucket, count in ordered:
        seen += count
        if index < seen:
            return middle_of(bucket)
    return middle_of(ordered[-1][0])

"""Buckets for durations: exact below 128 ms, within 1 % above, and they add up."""

from collections import Counter
from statistics import median, quantiles

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuectl.store.histogram import bucket_of, middle_of, quantile

durations = st.integers(0, 10_000) | st.integers(0, 2**62)
samples = st.lists(durations, min_size=1, max_size=60)


def buckets(values: list[int]) -> list[tuple[int, int]]:
    """Count values by bucket."""
    return list(Counter(bucket_of(ms) for ms in values).items())


class TestBuckets:
    @pytest.mark.parametrize("ms", range(128))
    def test_below_128_each_has_its_own(self, ms: int) -> None:
        assert bucket_of(ms) == ms
        assert middle_of(ms) == ms

    @given(durations)
    def test_the_middle_is_within_1_percent(self, ms: int) -> None:
        assert abs(middle_of(bucket_of(ms)) - ms) <= ms / 100

    @given(durations)
    def test_the_middle_lies_in_its_bucket(self, ms: int) -> None:
        bucket = bucket_of(ms)
        assert bucket_of(middle_of(bucket)) == bucket

    @given(durations, durations)
    def test_longer_is_never_in_an_earlier_bucket(self, one: int, other: int) -> None:
        assert (one <= other) <= (bucket_of(one) <= bucket_of(other))

    def test_none_is_skipped(self) -> None:
        seen = [bucket_of(ms) for ms in range(5_000)]
        assert sorted(set(seen)) == list(range(max(seen) + 1))

    @pytest.mark.parametrize("exponent", range(7, 40))
    def test_there_are_64_for_every_doubling(self, exponent: int) -> None:
        assert bucket_of(2 ** (exponent + 1)) - bucket_of(2**exponent) == 64

    @pytest.mark.parametrize("ms", [-1, -(2**40)])
    def test_less_than_nothing_is_nothing(self, ms: int) -> None:
        assert bucket_of(ms) == 0


class TestQuantiles:
    @pytest.mark.parametrize("counts", [[], [(5, 0)]])
    def test_of_nothing_there_are_none(self, counts: list[tuple[int, int]]) -> None:
        assert quantile(counts, 0.5) is None

    @pytest.mark.parametrize(
        ("values", "share", "expected"),
        [
            ([7], 0.5, 7),
            ([7], 0.99, 7),
            ([1, 2], 0.5, 1.5),
            ([1, 2, 3], 0.5, 2),
            ([1, 2, 3, 100], 0.5, 2.5),
            ([1, 1, 1, 100], 0.5, 1),
            ([1, 2, 3, 4, 5], 0.0, 1),
            ([1, 2, 3, 4, 5], 1.0, 5),
            ([1, 2, 3, 4, 5], 0.25, 2),
            (list(range(101)), 0.95, 95),
            (list(range(101)), 0.99, 99),
        ],
    )
    def test_small_ones_are_exact(self, values: list[int], share: float, expected: float) -> None:
        assert quantile(buckets(values), share) == pytest.approx(expected)

    @given(samples)
    def test_the_median_is_within_1_percent(self, values: list[int]) -> None:
        found = quantile(buckets(values), 0.5)
        assert found is not None
        exact = median(values)
        # The mean of two middles, each within 1 % of its own value.
        assert abs(found - exact) <= exact / 100 + 1e-6 * exact

    @given(st.lists(durations, min_size=2, max_size=60))
    def test_all_percentiles_are_within_1_percent(self, values: list[int]) -> None:
        exact = quantiles(values, n=100, method="inclusive")
        for percent in (5, 25, 75, 95, 99):
            found = quantile(buckets(values), percent / 100)
            assert found is not None
            right = exact[percent - 1]
            assert abs(found - right) <= right / 100 + 1e-6 * right + 1e-6

    @given(samples)
    def test_higher_shares_are_never_shorter(self, values: list[int]) -> None:
        counts = buckets(values)
        found = [quantile(counts, share / 10) or 0 for share in range(11)]
        assert found == sorted(found)

    @given(st.lists(samples, min_size=1, max_size=5))
    def test_histograms_merge_by_adding_up(self, parts: list[list[int]]) -> None:
        together = buckets([ms for part in parts for ms in part])
        apart = [row for part in parts for row in buckets(part)]
        for share in (0.0, 0.5, 0.95, 1.0):
            assert quantile(together, share) == quantile(apart, share)

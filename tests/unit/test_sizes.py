"""Numbers of bytes: read, refused and written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuectl.sizes import format_size, parse_size


class TestSizes:
    @pytest.mark.parametrize(
        ("text", "size"),
        [
            ("0", 0),
            (4096, 4_096),
            ("64k", 65_536),
            ("64K", 65_536),
            ("64kb", 65_536),
            ("64KiB", 65_536),
            (" 1 MiB ", 2**20),
            ("2G", 2**31),
            ("10b", 10),
            ("1_000", 1_000),
            ("1024g", 2**40),
            ("1T", 2**40),
            ("1.5k", 1_536),
            ("1.5Gi", 3 * 2**29),
            ("0.1k", 102),
        ],
    )
    def test_reads(self, text: object, size: int) -> None:
        assert parse_size(text) == size

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "k",
            "-1",
            "+1",
            "1.5",
            ".5k",
            "1.k",
            "1.2.3k",
            "1p",
            "1kk",
            "0x10",
            "٣",
            "²",
            "1 2",
            None,
            [1],
        ],
    )
    def test_refuses(self, text: object) -> None:
        with pytest.raises(ValueError, match=r"^a size such as 1\.5G, 512M or 64MiB$"):
            parse_size(text)

    def test_refuses_more_than_a_tebibyte(self) -> None:
        with pytest.raises(ValueError, match=r"^a size of at most 1024 GiB$"):
            parse_size(2**40 + 1)

    @given(st.integers(0, 2**40))
    def test_reads_back_what_it_writes(self, size: int) -> None:
        assert parse_size(format_size(size)) == size

    @given(st.text())
    def test_reads_or_says_what_a_size_is(self, text: str) -> None:
        try:
            assert 0 <= parse_size(text) <= 2**40
        except ValueError as error:
            assert str(error).startswith("a size ")

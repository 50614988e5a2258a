"""The parts of the supervisor that need no job: capped files, and finding processes without a subreaper."""

from __future__ import annotations

from pathlib import Path

import pytest

from tithe.runner.supervisor import CappedFile, below, parse_ps


def capped(path: Path, cap: int, chunks: list[bytes]) -> tuple[bytes, int]:
    file = CappedFile(str(path), cap)
    for chunk in chunks:
        file.feed(chunk)
    file.close()
    return path.read_bytes(), file.dropped


def test_short_output_is_kept_whole(tmp_path: Path) -> None:
    assert capped(tmp_path / "o", 100, [b"ab", b"c" * 90, b"d" * 8]) == (b"ab" + b"c" * 90 + b"d" * 8, 0)


@pytest.mark.parametrize("size", [1, 7, 1000, 100_000])
def test_of_long_output_head_and_tail_are_kept_and_the_cut_is_said(tmp_path: Path, size: int) -> None:
    whole = bytes(range(256)) * 400
    chunks = [whole[at : at + size] for at in range(0, len(whole), size)]
    kept, dropped = capped(tmp_path / "o", 400, chunks)
    assert dropped == len(whole) - 400
    assert kept == whole[:300] + f"\n[... {dropped} bytes cut ...]\n".encode() + whole[-100:]


def test_descendants() -> None:
    assert below(1, {2: 1, 3: 2, 4: 3, 5: 9, 9: 0}) == {2, 3, 4}


def test_a_listing_of_ps_names_parents_and_holders_of_the_token() -> None:
    text = (
        "  10   1 python x TITHE_LAUNCH=00000001\n 11 10 sh\nPID PPID\n12 1 y TITHE_LAUNCH=00000002\n13 x\n"
    )
    parents, holders = parse_ps(text, "TITHE_LAUNCH=00000001")
    assert parents == {10: 1, 11: 10, 12: 1}
    assert holders == {10}

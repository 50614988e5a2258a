"""Custom metrics out of what a scenario prints or writes, garbage included."""

from __future__ import annotations

from pathlib import Path

import pytest

from tithe.runner import metrics


def read(
    tmp_path: Path, output: str, lines: str = "", wanted: tuple[str, ...] = ("value", "t", "u/v")
) -> dict[str, float]:
    out, file = tmp_path / "out", tmp_path / "metrics"
    out.write_text(output)
    file.write_text(lines)
    return metrics.read(out, file, wanted)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("3.5\n", {"value": 3.5}),
        ("noise\n  1e-3  \nmore\n", {"value": 0.001}),
        ("1\n2\n", {"value": 2.0}),
        ("t=4.25\n", {"t": 4.25}),
        ("step 3: t=1 u/v=-2e3, other=9\n", {"t": 1.0, "u/v": -2000.0}),
        ("t=1\nt=2\n", {"t": 2.0}),
        ("t=nan\nvalue=inf\n", {}),
        ("1e308\n", {"value": 1e308}),
        ("1e999\n", {}),
        ("t=4s\nnot=t=3\n3 apples\n\x1b[2J\x00\xff\n", {}),
        ("", {}),
    ],
)
def test_output(tmp_path: Path, output: str, expected: dict[str, float]) -> None:
    assert read(tmp_path, output) == expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ('{"t": 2, "w": 3}\n', {"t": 2.0}),
        ('{"name": "t", "value": 2.5}\n', {"t": 2.5}),
        ('{"t": NaN}\n{"t": true}\n{"t": "4"}\n[1]\n{"name": "t"}\n{', {}),
        ('{"t": 1}\n{"t": 2}\n', {"t": 2.0}),
        ("[" * 100_000, {}),
        ('{"t": 1' + "0" * 400 + "}", {}),
    ],
)
def test_file(tmp_path: Path, lines: str, expected: dict[str, float]) -> None:
    assert read(tmp_path, "", lines) == expected


def test_the_file_wins_over_the_output(tmp_path: Path) -> None:
    assert read(tmp_path, "t=1\n", '{"t": 2}\n') == {"t": 2.0}


def test_bytes_that_are_no_text_and_files_that_are_not_there(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_bytes(b"\xff\xfe\nt=3\n")
    assert metrics.read(out, tmp_path / "none", ["t"]) == {"t": 3.0}
    assert metrics.read(tmp_path / "none", tmp_path / "none", ["t"]) == {}

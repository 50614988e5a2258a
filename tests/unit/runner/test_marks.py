"""Marks read back without trusting them, and which of them is the first batch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tithe.runner.marks import Origin, first, first_batch, read_functions, read_marks


def test_marks_come_in_the_order_of_their_times(tmp_path: Path) -> None:
    file = tmp_path / "marks"
    file.write_text("late 3000000000 7\nearly 1500000000 8 why so\n")
    marks, origins = read_marks(file, 1_000_000_000)
    assert [(mark.name, mark.seconds, mark.pid, mark.note) for mark in marks] == [
        ("early", 0.5, 8, "why so"),
        ("late", 2.0, 7, ""),
    ]
    assert origins == ()


def test_nonsense_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "marks"
    file.write_bytes(b"ok 5 1\nx\n\xff\xfe 1 1\nbad name 5 1\nname notanumber 1\n" + b"a" * 100 + b" 1 1\n")
    assert [mark.name for mark in read_marks(file, 0)[0]] == ["ok"]


def test_no_file_is_no_marks(tmp_path: Path) -> None:
    assert read_marks(tmp_path / "none", 0) == ((), ())


def test_origins_are_told_once(tmp_path: Path) -> None:
    file = tmp_path / "marks"
    told = '{"pkg": "/x/pkg/__init__.py"}'
    file.write_text(f"@origin 5 1 {told}\n@origin 6 2 {told}\n@origin 7 2 {{\n")
    assert read_marks(file, 0) == ((), (Origin("pkg", "/x/pkg/__init__.py"),))


def test_the_first_of_a_name_counts(tmp_path: Path) -> None:
    file = tmp_path / "marks"
    file.write_text("a 2000000000 1\na 1000000000 2\n")
    assert first(read_marks(file, 0)[0]) == {"a": 1.0}


@pytest.mark.parametrize(
    ("phases", "expected"),
    [
        ({"first-batch": 3.0, "train-batch": 2.0, "first-forward": 1.0}, 3.0),
        ({"train-batch": 2.0, "grad-batch": 1.5, "first-forward": 1.0}, 2.0),
        ({"grad-batch": 1.5, "first-forward": 1.0}, 1.5),
        ({"first-forward": 1.0}, 1.0),
        ({"interpreter": 0.1, "first-batch-out": 1.0}, None),
    ],
)
def test_which_mark_is_the_first_batch(phases: dict[str, float], expected: float | None) -> None:
    assert first_batch(phases) == expected


def test_functions_keep_their_earliest_moment(tmp_path: Path) -> None:
    file = tmp_path / "functions"
    file.write_text("3000000000 9 a.py:f\n2000000000 8 a.py:f\n2500000000 8 with blank.py:C.g\nbroken\n")
    assert read_functions(file, 1_000_000_000) == {"a.py:f": 1.0, "with blank.py:C.g": 1.5}

"""Results of benchmark tools, as their current versions write them (cut to what is read)."""

from __future__ import annotations

import json

import pytest

from tithe.data import formats

PYPERF = {
    "benchmarks": [
        {
            "metadata": {"name": "sum of list"},
            "runs": [
                {"warmups": [[1, 9.0]]},
                {"values": [1.0, 2.0], "metadata": {}},
                {"values": [6.0]},
            ],
        }
    ],
    "metadata": {"unit": "second"},
    "version": "1.0",
}
PYTEST = {"benchmarks": [{"name": "test_x[1]", "fullname": "t.py::test_x[1]", "stats": {"median": 0.5, "mean": 9}},
                         {"name": "test_y", "stats": {"median": 0.25}}]}  # fmt: skip
HYPERFINE = {"results": [{"command": "sleep 0.1", "mean": 9, "median": 0.2, "times": [0.1, 0.3, 0.2]}]}
ASV = {
    "result_columns": ["result", "params", "version"],
    "results": {
        "suite.T.time_x": [[1.0, None, 3.0, float("nan")], [["1", "2"], ["'a'", "'b'"]], "v"],
        "suite.track_y": [[42], [], "v"],
        "suite.old": 7.5,
        "suite.failed": None,
    },
}


@pytest.mark.parametrize(
    ("name", "document", "expected"),
    [
        ("pyperf", PYPERF, {"sum_of_list": 3.75, "value": 3.75}),  # of medians 1.5 and 6
        ("pyperf", {**PYPERF, "benchmarks": [{"runs": [{"values": [1.5]}]}]}, {"value": 1.5}),
        ("pytest-benchmark", PYTEST, {"test_x_1": 0.5, "test_y": 0.25}),
        ("hyperfine", HYPERFINE, {"sleep_0.1": 0.2, "value": 0.2}),
        (
            "asv",
            ASV,
            {"suite.T.time_x/1/a": 1.0, "suite.T.time_x/2/a": 3.0, "suite.track_y": 42.0, "suite.old": 7.5},
        ),
    ],
)
def test_numbers_by_name(name: formats.Format, document: object, expected: dict[str, float]) -> None:
    assert formats.read(name, json.dumps(document).encode()) == expected


@pytest.mark.parametrize("name", formats.FORMATS)
@pytest.mark.parametrize(
    "content",
    [b"", b"\xff", b"[" * 100_000, b"null", b"[]", b"3", b'{"benchmarks": 3, "results": 3}',
     b'{"benchmarks": [{"runs": 1}], "results": [[]]}', b'{"benchmarks": [{"name": "x"}], "results": [{"x": 1}]}'],
)  # fmt: skip
def test_anything_else_is_refused_in_words(name: formats.Format, content: bytes) -> None:
    with pytest.raises(ValueError, match=r"^is "):
        formats.read(name, content)


def test_names_become_names_of_metrics() -> None:
    assert formats.metric_name("test[a b]-1") == "test_a_b_-1"
    assert formats.metric_name("3 times") == "_3_times"
    assert formats.metric_name("[]") == "_"

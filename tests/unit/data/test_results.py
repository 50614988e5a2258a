"""Readers of other tools' results: one conformance for all, and what is peculiar to each."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import pytest

from tithe.data import results
from tithe.data.points import Point, Refused

SHA = "a" * 40
ASV_2 = {
    "commit_hash": SHA,
    "env_name": "virtualenv-py3.11",
    "date": 1_700_000_000_000,
    "params": {"machine": "i7"},
    "version": 2,
    "result_columns": ["result", "params", "version", "started_at", "duration"],
    "results": {
        "suite.T.time_x": [
            [1.5, None, float("nan"), 4.0],
            [["1", "2"], ["'a'", "'b'"]],
            "v1",
            1_700_000_100_000,
            2.0,
        ],
        "suite.mem_y": [[4096], [], "v2"],
        "suite.track_z": [[7], [], "v3"],
        "suite.gone": None,
    },
}
ASV_1 = {
    "commit_hash": SHA,
    "env_name": "py2.7",
    "date": 1_400_000_000_000,
    "params": {"machine": "i7"},
    "version": 1,
    "results": {"suite.time_x": 0.25, "suite.time_y": {"result": [1.0, 2.0], "params": [["1", "2"]]}},
}
PYPERF = {
    "version": "1.0",
    "metadata": {"hostname": "box", "commit_id": SHA, "unit": "second"},
    "benchmarks": [
        {
            "metadata": {"name": "sum"},
            "runs": [
                {"warmups": [[1, 9.0]]},
                {"values": [1.0, 3.0, 2.0], "metadata": {"date": "2024-01-01 00:00:00.5"}},
                {"values": [4.0]},
            ],
        }
    ],
}
PYTEST = {
    "machine_info": {"node": "box", "machine": "x86_64", "python_version": "3.11.7"},
    "commit_info": {"id": SHA, "dirty": False},
    "datetime": "2024-01-01T00:00:00+00:00",
    "benchmarks": [{"name": "test_x[1]", "fullname": "t.py::test_x[1]", "stats": {"median": 0.5}}],
}
HYPERFINE = {"results": [{"command": "sleep 0.1", "median": 0.2, "times": [0.1, 0.3, 0.2]}]}
JUNIT = """<?xml version="1.0"?>
<testsuites><testsuite name="s" hostname="box" timestamp="2024-01-01T00:00:00">
<testcase classname="t" name="ok" time="1.5"/><testcase classname="t" name="bad" time="9"><failure/></testcase>
<testcase classname="t" name="skip" time="0"><skipped/></testcase></testsuite></testsuites>"""
CSV = f"""benchmark,value,unit,commit,host,at,direction
load,250,ms,{SHA},box,1700000000,smaller
speed,9,img/s,{SHA},,,larger
"""
WHOLE = {
    "asv": json.dumps(ASV_2),
    "pyperf": json.dumps(PYPERF),
    "pytest-benchmark": json.dumps(PYTEST),
    "hyperfine": json.dumps(HYPERFINE),
    "junit": JUNIT,
    "csv": CSV,
}


def read(tmp_path: Path, content: str | bytes, **more: Any) -> tuple[list[Point], list[Refused]]:
    path = tmp_path / "results.any"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    found = list(results.read(path, **{"commit": "", **more}))
    return [one for one in found if isinstance(one, Point)], [
        one for one in found if isinstance(one, Refused)
    ]


# One conformance for all.


@pytest.mark.parametrize("tool", WHOLE)
def test_content_tells_the_tool(tmp_path: Path, tool: str) -> None:
    document = json.loads(WHOLE[tool]) if WHOLE[tool].startswith("{") else None
    assert [one.name for one in results.readers() if one.recognises(document, WHOLE[tool])] == [tool]
    points, refused = read(tmp_path, WHOLE[tool], commit=SHA)
    assert points
    assert refused == []
    for point in points:
        assert point.commit == SHA
        assert math.isfinite(point.value)
        assert point.benchmark.isprintable()
        assert point.host
        assert point.unit in ("s", "bytes", "", "img/s")
    assert read(tmp_path, WHOLE[tool], commit=SHA, tool=tool) == (points, refused)


@pytest.mark.parametrize("tool", WHOLE)
def test_what_is_cut_off_is_refused_and_named(tmp_path: Path, tool: str) -> None:
    whole = WHOLE[tool]
    for end in range(0, len(whole) - 2, 7):
        points, refused = read(tmp_path, whole[:end], commit=SHA)
        # A table can end after any line; everything else is whole or nothing.
        assert points == [] or tool == "csv"
        assert refused or tool == "csv"
        assert all(one.why and one.where and one.where.isprintable() for one in refused)


@pytest.mark.parametrize("tool", WHOLE)
@pytest.mark.parametrize(
    "content",
    [b"", b"\x00", b"\xff\xfe{", b"[" * 100_000, b"null", b"[]", b"{}", b"<a><b></a>", b"x,y\n1,2\n",
     b'{"benchmarks": [{"runs": 3}]}', b'{"commit_hash": 1, "results": 3}', b'{"results": [{"command": 1}]}',
     b'{"benchmarks": [3], "machine_info": 3, "commit_info": 4}'],
)  # fmt: skip
def test_nonsense_is_refused_in_words(tmp_path: Path, tool: str, content: bytes) -> None:
    for more in ({}, {"tool": tool}):
        points, refused = read(tmp_path, content, **more)
        assert points == []
        assert [one.why for one in refused if one.why]


@pytest.mark.parametrize("tool", WHOLE)
def test_hostile_names_are_no_scenarios(tmp_path: Path, tool: str) -> None:
    names = {
        "asv": "suite.T.time_x",
        "pyperf": '"sum"',
        "pytest-benchmark": "t.py::test_x[1]",
        "hyperfine": "sleep 0.1",
    }
    if tool not in names:
        pytest.skip("its names are in another test")
    evil = names[tool].replace(names[tool].strip('"'), "\\u001b[31m<script>' OR 1=1 --\\n")
    points, refused = read(tmp_path, WHOLE[tool].replace(names[tool], evil), commit=SHA)
    assert not [point for point in points if not point.benchmark.isprintable()]
    assert refused
    assert all(one.where.isprintable() for one in refused)


def test_no_commit_is_asked_for_and_not_guessed(tmp_path: Path) -> None:
    for tool in ("hyperfine", "junit"):
        points, refused = read(tmp_path, WHOLE[tool])
        assert points == []
        assert all("give --commit" in one.why for one in refused)


# What is peculiar to each.


def test_asv_keeps_parameters_machines_and_versions_apart(tmp_path: Path) -> None:
    points, _ = read(tmp_path, WHOLE["asv"])
    found = {point.benchmark: point for point in points}
    assert {name: point.value for name, point in found.items()} == {
        "suite.T.time_x/1/a": 1.5,
        "suite.T.time_x/2/b": 4.0,
        "suite.mem_y": 4096.0,
        "suite.track_z": 7.0,
    }
    one = found["suite.T.time_x/1/a"]
    assert (one.host, one.version, one.at, one.processes) == (
        "i7 virtualenv-py3.11",
        "v1",
        1_700_000_100.0,
        0,
    )
    assert [found[name].unit for name in ("suite.mem_y", "suite.track_z")] == ["bytes", ""]


def test_asv_of_version_one(tmp_path: Path) -> None:
    points, refused = read(tmp_path, json.dumps(ASV_1))
    assert {point.benchmark: point.value for point in points} == {
        "suite.time_x": 0.25,
        "suite.time_y/1": 1.0,
        "suite.time_y/2": 2.0,
    }
    assert refused == []


def test_a_process_counts_once_whatever_it_repeats(tmp_path: Path) -> None:
    (point,), _ = read(tmp_path, WHOLE["pyperf"])
    assert (point.value, point.processes, point.host) == (3.0, 2, "box")  # of medians 2 and 4
    (point,), _ = read(tmp_path, WHOLE["hyperfine"], commit=SHA)
    assert (point.value, point.processes) == (0.2, 3)
    (point,), _ = read(tmp_path, WHOLE["pytest-benchmark"])
    assert (point.value, point.processes) == (0.5, 1)


def test_uncommitted_changes_are_of_no_commit(tmp_path: Path) -> None:
    dirty = json.dumps({**PYTEST, "commit_info": {"id": SHA, "dirty": True}})
    points, (refused,) = read(tmp_path, dirty)
    assert points == []
    assert "uncommitted" in refused.why


def test_junit_takes_what_passed_and_no_entities(tmp_path: Path) -> None:
    (point,), _ = read(tmp_path, JUNIT, commit=SHA)
    assert (point.benchmark, point.value, point.host) == ("t.ok", 1.5, "box")
    bomb = '<!DOCTYPE x [<!ENTITY a "b">]>' + JUNIT.partition("?>")[2]
    points, refused = read(tmp_path, bomb, commit=SHA)
    assert points == []
    assert refused


def test_the_table_converts_units_and_names_its_lines(tmp_path: Path) -> None:
    points, _ = read(tmp_path, CSV)
    assert [(p.benchmark, p.value, p.unit, p.direction) for p in points] == [
        ("load", 0.25, "s", "smaller"),
        ("speed", 9.0, "img/s", "larger"),
    ]
    lines = [f"a,x,{SHA},", f"b,nan,{SHA},", f"c,-1,{SHA},", "d,1,zz,", f"e,1,{SHA},up", f"f,1,{SHA},"]
    bad = "\n".join(["benchmark,value,commit,direction", *lines])
    points, refused = read(tmp_path, bad)
    assert [point.benchmark for point in points] == ["f"]
    assert len(refused) == 5
    assert refused[0].where.endswith(":2")


def test_folders_are_walked_by_name_and_without_what_is_hidden(tmp_path: Path) -> None:
    for name in ("b/2.json", "a/1.json", "machine.json", ".git/x.json", "a/notes.txt"):
        path = tmp_path / "r" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    found = [path.relative_to(tmp_path / "r").as_posix() for path in results.files([tmp_path / "r"])]
    assert found == ["a/1.json", "b/2.json"]


def test_a_file_without_end_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "LIMIT", 100)
    _, (refused,) = read(tmp_path, "{" + " " * 200)
    assert "MiB" in refused.why


@pytest.mark.parametrize(("tool", "version"), [("asv", 3), ("asv", "x"), ("asv", None), ("pyperf", "2.0")])
def test_a_newer_version_is_not_guessed_at(tmp_path: Path, tool: str, version: object) -> None:
    document = {**json.loads(WHOLE[tool]), "version": version}
    points, (refused,) = read(tmp_path, json.dumps(document))
    assert points == []
    assert "is of version" in refused.why


def test_packed_files_are_read_and_bombs_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for tool, whole in WHOLE.items():
        packed = gzip.compress(whole.encode())
        assert read(tmp_path, packed, commit=SHA) == read(tmp_path, whole, commit=SHA), tool
        for cut in (packed[:-1], packed[: len(packed) // 2], packed[:10], packed[:3]):
            points, (refused,) = read(tmp_path, cut, commit=SHA)
            assert points == []
            assert "not whole gzip" in refused.why
    monkeypatch.setattr(results, "LIMIT", 1 << 20)
    points, (refused,) = read(tmp_path, gzip.compress(b"[" * (64 << 20)))
    assert points == []
    assert refused.why == "has more than 1 MiB"


@pytest.mark.parametrize(
    "value", ["-1.0", "NaN", "Infinity", "-Infinity", "1e999", '"1.5"', "true", "[[1]]", "{}"]
)
def test_a_value_that_is_none_is_refused_by_name_and_the_rest_stays(tmp_path: Path, value: str) -> None:
    whole = WHOLE["asv"].replace("[[4096]", f"[[{value}]")
    points, refused = read(tmp_path, whole)
    assert [point.benchmark for point in points] == [
        "suite.T.time_x/1/a",
        "suite.T.time_x/2/b",
        "suite.track_z",
    ]
    assert value == "NaN" or any(
        "suite.mem_y" in one.where for one in refused
    )  # asv writes NaN for a skipped one


# Nothing is cut, merged or guessed in silence.


@pytest.mark.parametrize(
    ("values", "params"), [([1.0, 2.0, 3.0], [["1", "2"]]), ([1.0], [["1", "2"]]), ([1.0, 2.0], [])]
)
def test_asv_values_that_do_not_fit_their_parameters_are_refused(
    tmp_path: Path, values: list[float], params: list[list[str]]
) -> None:
    document = {**ASV_2, "results": {"t.time_x": [values, params], "t.time_y": [[1.0], []]}}
    points, (refused,) = read(tmp_path, json.dumps(document))
    assert [point.benchmark for point in points] == ["t.time_y"]
    assert "combinations of parameters" in refused.why


def test_hyperfine_leaves_out_runs_that_failed(tmp_path: Path) -> None:
    times = [0.1, 9.0, 0.3]
    some = {"command": "a", "median": 0.3, "times": times, "exit_codes": [0, 1, 0]}
    none = {"command": "b", "median": 0.3, "times": times, "exit_codes": [2, 1, None]}
    points, (refused,) = read(tmp_path, json.dumps({"results": [some, none]}), commit=SHA)
    assert [(point.benchmark, point.value, point.processes) for point in points] == [("a", 0.2, 2)]
    assert "failed every time" in refused.why


@pytest.mark.parametrize(
    ("tool", "good", "bad"),
    [
        ("pyperf", PYPERF["benchmarks"],
         [{"runs": 3}, 7, {"runs": [{"values": ["x"]}]}, {"runs": [{"values": [10**400]}]}]),
        ("pytest-benchmark", PYTEST["benchmarks"],
         [{}, None, {"name": "x", "stats": {"median": "0.5"}}, {"name": "y", "stats": 3}]),
        ("hyperfine", HYPERFINE["results"], [3, {"command": "x"}, {"command": "x", "times": [True]}, {"times": [1]}]),
    ],
)  # fmt: skip
def test_a_damaged_entry_costs_no_other(tmp_path: Path, tool: str, good: list[Any], bad: list[Any]) -> None:
    whole = json.loads(WHOLE[tool])
    key = "results" if tool == "hyperfine" else "benchmarks"
    document = {**whole, key: [*good, *bad, *good]}
    points, refused = read(tmp_path, json.dumps(document), commit=SHA)
    assert len(points) == 2 * len(good)
    assert len(refused) == len(bad)
    assert all(f"{1 + len(good)}" in one.where or n for n, one in enumerate(refused))


def test_bytes_that_are_no_text_merge_no_names(tmp_path: Path) -> None:
    rows = b"benchmark,value,commit,host\n" + b"".join(
        b"n%s,1,%s,h%s\n" % (name, SHA.encode(), host)
        for name, host in ((b"\xff", b""), (b"\xfe", b""), (b"", b"\xff"), (b"", b""))
    )
    points, refused = read(tmp_path, rows)
    assert [point.benchmark for point in points] == ["n"]
    assert len(refused) == 3
    assert all("not UTF-8" in one.why for one in refused)
    for encoding in ("utf-16", "utf-16-be", "utf-16-le"):
        points, refused = read(tmp_path, CSV.encode(encoding))
        assert points == []
        assert refused


def test_a_table_with_damaged_lines_keeps_the_others_and_names_them(tmp_path: Path) -> None:
    good = f"a,1,{SHA},h,"
    lines = [
        good,
        f"a,1,{SHA},h,,surplus",
        "a,1",
        f'a,1,{SHA},"h,',  # a quote that swallows the next line
        "swallowed",
        f'",{SHA}',
        f"a,1,{SHA},h\x00,",
        f"a,1_0,{SHA},h,",
        f"a,١,{SHA},h,",
        f"a,1,{SHA},h,yesterday",
        "",
        f"a,1,{SHA},{'h' * 200_000},",
        good.replace("a,", "z,", 1),
    ]
    points, refused = read(tmp_path, "benchmark,value,commit,host,at\n" + "\n".join(lines) + "\n")
    assert [point.benchmark for point in points] == ["a", "z"]
    assert len(refused) >= 8
    assert all(one.where and one.why for one in refused)
    points, (one,) = read(tmp_path, f"benchmark,value,value,commit\na,1,2,{SHA}\n")
    assert points == []
    assert "two columns" in one.why


@pytest.mark.parametrize(
    ("time", "seconds"), [("1,234.5", 1234.5), ("0,123", None), ("1e3", 1e3), ("1,5", None)]
)
def test_junit_times_are_read_one_way_or_refused(tmp_path: Path, time: str, seconds: float | None) -> None:
    points, refused = read(tmp_path, JUNIT.replace('time="1.5"', f'time="{time}"'), commit=SHA)
    assert [point.value for point in points] == ([] if seconds is None else [seconds])
    assert len(refused) == (seconds is None)


@pytest.mark.parametrize("field", ["version", "env_name"])
def test_no_field_holds_what_no_terminal_and_no_store_bears(tmp_path: Path, field: str) -> None:
    evil = "\ud800\u001b[31m"
    document: dict[str, Any] = json.loads(WHOLE["asv"])
    if field == "version":
        document["results"] = {"t.time_x": [[1.0], [], evil]}
    else:
        document = {**document, "results": {"t.time_x": [[1.0], [], "v"]}, "env_name": evil}
    points, (refused,) = read(tmp_path, json.dumps(document))
    assert points == []
    assert "control characters" in refused.why


def test_all_members_of_a_packed_file_are_read(tmp_path: Path) -> None:
    half = CSV.index("speed")
    packed = gzip.compress(CSV[:half].encode()) + gzip.compress(CSV[half:].encode())
    assert read(tmp_path, packed) == read(tmp_path, CSV)
    points, (refused,) = read(tmp_path, packed + b"\x1f\x8bjunk")
    assert points == []
    assert "not whole gzip" in refused.why


def test_a_folder_without_results_is_named(tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "notes.txt").write_text("x")
    (one,) = results.files([tmp_path / "r"])
    assert isinstance(one, Refused)
    assert "no file of results" in one.why


def test_a_long_host_is_one_and_a_long_name_is_none(tmp_path: Path) -> None:
    long = "x" * 300
    points, (refused,) = read(tmp_path, f"benchmark,value,commit,host\n{long},1,{SHA},h\nb,1,{SHA},{long}\n")
    assert [(point.benchmark, point.host) for point in points] == [("b", long)]
    assert "name" in refused.why

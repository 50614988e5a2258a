"""A bundle is what it says, or is refused with the file and the line."""

from __future__ import annotations

import gzip
import hashlib
import math
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tithe.data import spool
from tithe.data.errors import LocationError, SpoolError, UsageError
from tithe.data.records import (
    Candidate,
    Change,
    DiffSummary,
    FileEdit,
    Launch,
    LaunchId,
    MetricName,
    Outcome,
    RunId,
    RunRecord,
    ScenarioName,
    Selection,
    Sha,
)
from tithe.data.spool import SUFFIX, ingest, read_bundle, write_bundle
from tithe.data.store import Store

A, B = Sha("a" * 40), Sha("b" * 40)
RUN = RunRecord(RunId("run-1"), "check", A, B, 7.0, "host", "chosen", "sel-1")
LAUNCH = Launch(
    LaunchId("l-1"), RunId("run-1"), ScenarioName("lm"), "base", A, "first", 0, 0, "a", 1.0, 2.0, "ok", 0,
    {MetricName("wall"): 1.5}, {"first-batch": 0.25},
)  # fmt: skip
OUTCOME = Outcome(A, B, ScenarioName("lm"), MetricName("wall"), "regressed", 9.0, "ab", "chosen", 1.2)
CHANGE = Change(B, A, 3, "Ada <b>", 5.0, "Ünïcode; DROP TABLE change", (FileEdit("a.py", 1, 2),))
SELECTION = Selection(
    "sel-1", "main", "HEAD", DiffSummary(1, 1, 2, ("a.py",)), {"cpu": 60.0}, 1, "prior",
    (Candidate(ScenarioName("lm"), 0.5, {"cpu": 1.0}, 1, "chosen", ("near",)),), (),
)  # fmt: skip
ALL = (RUN, LAUNCH, OUTCOME, CHANGE, SELECTION)
HEADER = b'{"bundle":1,"tithe":"0.1.0"}\n'


def forge(folder: Path, text: bytes, pack: Callable[[bytes], bytes] = gzip.compress) -> Path:
    """A bundle whose name fits, with any text."""
    folder.mkdir(exist_ok=True)
    path = folder / (hashlib.sha256(text).hexdigest()[:32] + SUFFIX)
    path.write_bytes(pack(text))
    return path


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = write_bundle(tmp_path / "new" / "folder", ALL)
    assert read_bundle(path) == list(ALL)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_the_same_records_are_the_same_bytes_and_a_no_op_for_the_store(tmp_path: Path) -> None:
    first = write_bundle(tmp_path / "one", ALL)
    raw = first.read_bytes()
    assert write_bundle(tmp_path / "two", iter(ALL)).read_bytes() == raw
    assert write_bundle(tmp_path / "one", ALL) == first
    with Store.open(tmp_path / "s.db") as store:
        report = ingest(store, tmp_path)
        assert (report.bundles, report.already) == (1, 1)
        assert report.added == {"changes": 1, "runs": 1, "launches": 1, "outcomes": 1, "selections": 1}
        assert ingest(store, first).already == 1
        assert store.selection("sel-1") == SELECTION


def test_a_bundle_with_known_records_adds_only_the_new_ones(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.db") as store:
        store.add_outcomes([OUTCOME])
        report = ingest(store, write_bundle(tmp_path, [OUTCOME, replace(OUTCOME, known_at=10.0)]))
        assert report.added == {"outcomes": 1}


def test_bad_bundles_are_named_and_the_good_ones_taken(tmp_path: Path) -> None:
    good = write_bundle(tmp_path, ALL)
    bad = forge(tmp_path / "sub", HEADER + b"garbage\n")
    named_wrong = tmp_path / f"results{SUFFIX}"
    named_wrong.write_bytes(good.read_bytes())
    (tmp_path / "README.md").write_text("not a bundle")
    with Store.open(tmp_path / "s.db") as store:
        report = ingest(store, tmp_path)
        assert report.bundles == 1
        assert [path for path, _ in report.skipped] == [str(named_wrong), str(bad)]
        assert "not named as a bundle" in report.skipped[0][1]
        assert "line 2" in report.skipped[1][1]


@pytest.mark.parametrize("kind", ["pipe", "loop", "dangling", "link to a file"])
def test_what_is_no_file_is_skipped_and_named(tmp_path: Path, kind: str) -> None:
    write_bundle(tmp_path / "in", ALL)
    odd = tmp_path / "in" / ("0" * 32 + SUFFIX)
    (tmp_path / "secret").write_text("of the user")
    if kind == "pipe":
        os.mkfifo(odd)
    else:
        odd.symlink_to({"loop": odd.name, "dangling": "nowhere", "link to a file": tmp_path / "secret"}[kind])
    with Store.open(tmp_path / "s.db") as store:
        report = ingest(store, tmp_path / "in")
        assert report.bundles == 1
        ((where, why),) = report.skipped
        assert where == str(odd)
        assert "is a " in why
        linked = tmp_path / write_bundle(tmp_path / "other", [RUN]).name
        linked.symlink_to(tmp_path / "other" / linked.name)
        assert ingest(store, linked).bundles == 1  # a person named it


def test_no_such_source(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.db") as store:
        with pytest.raises(UsageError, match="no such file or folder"):
            ingest(store, tmp_path / "nowhere")
        (tmp_path / "empty").mkdir()
        assert ingest(store, tmp_path / "empty") == spool.IngestReport(0, 0, {}, ())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "line 1: no bundle header"),
        (b"{}\n", "line 1: no bundle header"),
        (
            b'{"bundle":2,"tithe":"9.9"}\n{"what":"ever"}\n',
            r"bundle version 2, written by tithe 9\.9; .*upgrade",
        ),
        (b'{"bundle":0,"tithe":"0"}\n', "no bundle version 0"),
        (HEADER + b'{"kind":"launch","record":{"id":1}}\n', r"line 2: .*\$\.id"),
        (HEADER + b'{"kind":"poem","record":{}}\n', "line 2: unknown kind 'poem'"),
        (HEADER + b'{"kind":"outcome"}\n', "line 2: .*record"),
        (HEADER + b"\n", "line 2"),
        (HEADER + b"\xff\xfe\n", "line 2"),
        (HEADER + b"[" * 100_000 + b"\n", "line 2"),
        (HEADER + b'{"kind":"run"', "cut off"),
    ],
)
def test_malformed_text_names_file_and_line(tmp_path: Path, text: bytes, said: str) -> None:
    path = forge(tmp_path, text)
    with pytest.raises(SpoolError, match=said) as caught:
        read_bundle(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_damage_is_noticed(tmp_path: Path) -> None:
    path = write_bundle(tmp_path, ALL)
    raw = path.read_bytes()
    for cut in range(len(raw)):
        path.write_bytes(raw[:cut])
        with pytest.raises(SpoolError):
            read_bundle(path)
    for place in range(10, len(raw)):  # the first ten bytes are gzip's own header, with a time and a system
        path.write_bytes(raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :])
        with pytest.raises(SpoolError):
            read_bundle(path)
    path.write_bytes(raw + raw)
    with pytest.raises(SpoolError, match="something follows"):
        read_bundle(path)


def test_a_compression_bomb_is_stopped_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "MAX_BYTES", 1_000_000)
    bomb = forge(tmp_path, HEADER + b" " * 50_000_000)
    assert bomb.stat().st_size < 100_000
    with pytest.raises(SpoolError, match="holds more than 1000000 bytes"):
        read_bundle(bomb)
    with pytest.raises(SpoolError, match="too many for one bundle"):
        write_bundle(tmp_path, [replace(CHANGE, body="x" * 2_000_000)])


BAD = [
    replace(OUTCOME, known_at=math.nan),
    replace(OUTCOME, known_at=-1.0),
    replace(OUTCOME, ratio=math.inf),
    replace(OUTCOME, confidence=1.5),
    replace(OUTCOME, base=Sha("--upload-pack=evil")),
    replace(OUTCOME, scenario=ScenarioName("")),
    replace(OUTCOME, scenario=ScenarioName("red\x1b[31m")),
    replace(OUTCOME, scenario=ScenarioName("x" * 501)),
    replace(OUTCOME, scenario=ScenarioName("\ud800")),
    replace(LAUNCH, seconds=-1.0),
    replace(LAUNCH, values={MetricName("wall"): math.nan}),
    replace(LAUNCH, phases={"a\nb": 1.0}),
    replace(LAUNCH, note="two\nlines"),
    replace(LAUNCH, block=2**63),
    replace(RUN, head=Sha("HEAD")),
    replace(RUN, host="\u202eevil"),
    replace(CHANGE, parent=Sha("abc")),
    replace(CHANGE, index=-2),
    replace(CHANGE, index=10**30),
    replace(CHANGE, files=(FileEdit("a.py", -2, 1),)),
    replace(CHANGE, files=(FileEdit("a.py", 1, 10**400),)),
    replace(CHANGE, time=1e300),
    replace(LAUNCH, started_at=1e300),
    replace(LAUNCH, block=-1),
    replace(RUN, started_at=-1e18),
    replace(SELECTION, diff=replace(SELECTION.diff, files=-1)),
    replace(SELECTION, budget={"cpu": -1.0}),
    replace(SELECTION, seed=10**30),
    replace(SELECTION, base="\x1b[31m"),
    replace(SELECTION, selected=(replace(SELECTION.selected[0], cost={"cpu": -1.0}),)),
    replace(SELECTION, rest=(replace(SELECTION.selected[0], rank=-3),)),
    replace(CHANGE, files=(FileEdit("\udcff", 1, 1),)),
    replace(SELECTION, selected=(replace(SELECTION.selected[0], probability=2.0),)),
]


@pytest.mark.parametrize("record", BAD)
def test_a_record_that_breaks_a_rule_is_neither_written_nor_read(
    tmp_path: Path, record: spool.Record
) -> None:
    with pytest.raises(SpoolError, match=r"record 2 \(a \w+\) cannot be spooled") as caught:
        write_bundle(tmp_path, [RUN, record])
    assert str(caught.value).isprintable()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (b'"base":"' + b"a" * 40, b'"base":"--output=/etc/passwd', "line 2: base is '--output=/etc/passwd'"),
        (b'"known_at":9.0', b'"known_at":-9.0', "line 4: known_at is -9, less than 0"),
        (b'"known_at":9.0', b'"known_at":1e999', "line 4"),
        (b'"verdict":"regressed"', b'"verdict":"\\u001b[31mfine"', "line 4"),
        (b'"scenario":"lm","metric"', b'"scenario":"\\u001b[2J","metric"', "line 4: scenario holds control"),
    ],
)
def test_a_stranger_cannot_smuggle_a_record_past_the_rules(
    tmp_path: Path, old: bytes, new: bytes, said: str
) -> None:
    text = gzip.decompress(write_bundle(tmp_path, ALL).read_bytes())
    assert old in text
    with pytest.raises(SpoolError, match=said) as caught:
        read_bundle(forge(tmp_path / "forged", text.replace(old, new)))
    assert str(caught.value).isprintable()


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LocationError, match="cannot be written"):
        write_bundle(tmp_path / "file", ALL)

"""What holds for the store and the spool whatever records they are given."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Sequence
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tithe.data.records import (
    STRENGTH,
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
from tithe.data.rules import MAX_COUNT
from tithe.data.spool import Record, ingest, read_bundle, write_bundle
from tithe.data.store import Store

# Few different values where records meet (commits, names, ids), many where they do not.
shas = st.sampled_from([Sha(letter * 40) for letter in "abcd"])
names = st.sampled_from(["lm", "tokenise", "naïve; DROP TABLE word", "<b>x</b>", "ü" * 20])
text = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
line = st.text(st.characters(exclude_categories=("Cs", "Cc", "Cf", "Zl", "Zp")), max_size=20)
times = st.floats(0, 4e9) | st.integers(0, 20).map(float)
finite = st.floats(allow_nan=False, allow_infinity=False)
ratios = st.none() | st.floats(0, 1e6)
picked = st.sampled_from(["chosen", "explored", "audited", "swept", "asked"])
values = st.dictionaries(names.map(MetricName), finite, max_size=3)
small = st.integers(-1, MAX_COUNT)

changes = st.builds(
    Change,
    sha=shas,
    parent=shas | st.just(Sha("")),
    index=st.integers(-1, 5),
    author=text,
    time=times,
    subject=text,
    files=st.lists(st.builds(FileEdit, text, small, small, text), max_size=3).map(tuple),
    body=text,
    merge=st.booleans(),
)
runs = st.builds(
    RunRecord,
    id=names.map(RunId),
    kind=st.sampled_from(["run", "check", "sweep", "bisect", "record"]),
    base=shas,
    head=shas,
    started_at=times,
    host=line,
    picked=picked,
    selection=st.sampled_from(["", "sel-1", "sel-2"]),
)
launches = st.builds(
    Launch,
    id=names.map(LaunchId),
    run=names.map(RunId),
    scenario=names.map(ScenarioName),
    arm=st.sampled_from(["base", "head"]),
    sha=shas,
    stage=st.sampled_from(["warmup", "first", "confirm", "probe", "record"]),
    block=st.integers(0, 3),
    position=st.integers(0, 3),
    place=st.sampled_from(["a", "b"]),
    started_at=times,
    seconds=st.floats(0, 1e6),
    status=st.sampled_from(["ok", "failed", "timeout", "unmarked"]),
    exit_code=st.none() | st.integers(-1, 255),
    values=values,
    phases=values,
    note=line,
)
outcomes = st.builds(
    Outcome,
    base=shas,
    change=shas,
    scenario=names.map(ScenarioName),
    metric=names.map(MetricName),
    verdict=st.sampled_from(["regressed", "improved", "same", "inconclusive", "broken", "fixed", "error"]),
    known_at=times,
    source=st.sampled_from(["ab", "sweep", "bisect", "import", "human"]),
    picked=picked,
    ratio=ratios,
    low=ratios,
    high=ratios,
    confidence=st.floats(0, 1),
    weight=st.floats(0, 1e3),
    run=st.just(RunId("")) | names.map(RunId),
)
candidates = st.lists(
    st.builds(
        Candidate,
        scenario=names.map(ScenarioName),
        probability=st.floats(0, 1),
        cost=st.dictionaries(st.sampled_from(["cpu", "gpu"]), st.floats(0, 1e6)),
        rank=st.integers(1, 99),
        picked=st.sampled_from(["chosen", "budget"]),
        reasons=st.lists(text, max_size=2).map(tuple),
    ),
    max_size=2,
).map(tuple)
selections = st.builds(
    Selection,
    id=st.sampled_from(["sel-1", "sel-2"]),
    base=line,
    head=line,
    diff=st.builds(DiffSummary, st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.just(("a.py",))),
    budget=st.just({"cpu": 60.0}),
    seed=st.integers(0, 99),
    model=line,
    selected=candidates,
    rest=candidates,
)
records: st.SearchStrategy[Record] = st.one_of(changes, runs, launches, outcomes, selections)

VIEWS = (
    "changes",
    "file_edits",
    "tags",
    "runs",
    "launches",
    "samples",
    "phases",
    "outcomes",
    "selection",
    "bundle",
)


def content(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """All rows of the store in words, which is what it holds apart from local keys."""
    connection = sqlite3.connect(path)
    rows = {view: sorted(connection.execute("SELECT * FROM " + view), key=repr) for view in VIEWS}  # noqa: S608
    connection.close()
    return rows


@given(st.lists(records, max_size=8))
@settings(max_examples=60, deadline=None)
def test_what_is_spooled_is_what_is_read(given_records: list[Record]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert read_bundle(write_bundle(Path(folder), given_records)) == given_records


@given(st.lists(launches, max_size=6), st.lists(outcomes, max_size=6), st.lists(changes, max_size=6))
@settings(max_examples=50, deadline=None)
def test_what_is_stored_is_what_is_read(
    some_launches: list[Launch], some_outcomes: list[Outcome], some_changes: list[Change]
) -> None:
    with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder) / "s.db") as store:
        new = store.add_launches(some_launches)
        found = list(store.launches())
        assert new == len(found)
        assert all(one in found for one in some_launches)
        assert all(one in some_launches for one in found)
        assert [one.started_at for one in found] == sorted(one.started_at for one in found)
        new = store.add_outcomes(some_outcomes)
        kept = store.outcomes(superseded=True)
        assert new == len(kept)
        assert all(one in kept for one in some_outcomes)
        assert store.add_changes(some_changes) == len({one.sha for one in some_changes})
        stored = store.changes(off_history=True)
        assert all(one in some_changes for one in stored)
        for one in stored:  # the record that is furthest along history has won
            assert one.index == max(other.index for other in some_changes if other.sha == one.sha)
        assert store.check() == []


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_order_and_repetition_of_bundles_do_not_change_the_store(data: st.DataObject) -> None:
    parts = data.draw(st.lists(st.lists(records, min_size=1, max_size=5), min_size=1, max_size=4))
    again: Sequence[list[Record]] = data.draw(st.permutations([*parts, data.draw(st.sampled_from(parts))]))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        seen = []
        for turn, order in enumerate((parts, again)):
            path = folder / f"{turn}.db"
            with Store.open(path) as store:
                for number, part in enumerate(order):
                    ingest(store, write_bundle(folder / f"{turn}-{number}", part))
                seen.append((store.noise(), store.launch_seconds(), store.outcomes(), store.runs()))
                assert store.check() == []
            seen.append((content(path),))
        assert seen[0] == seen[2]
        assert seen[1] == seen[3]


@given(st.lists(outcomes, max_size=10), times)
@settings(max_examples=80, deadline=None)
def test_the_past_does_not_know_the_future(some: list[Outcome], moment: float) -> None:
    past = [one for one in some if one.known_at < moment]
    with (
        tempfile.TemporaryDirectory() as folder,
        Store.open(Path(folder) / "all.db") as store,
        Store.open(Path(folder) / "past.db") as before,
    ):
        store.add_outcomes(some)
        before.add_outcomes(past)
        found = store.outcomes(until=moment)
        with store.reading() as connection:
            assert dict(connection.execute("SELECT name, strength FROM source").fetchall()) == STRENGTH
        assert found == before.outcomes()
    assert all(one.known_at < moment for one in found)
    subjects = [(one.base, one.change, one.scenario, one.metric) for one in found]
    assert len(set(subjects)) == len(subjects)
    for one in past:
        (speaker,) = [
            other
            for other in found
            if (other.base, other.change, other.scenario, other.metric)
            == (one.base, one.change, one.scenario, one.metric)
        ]
        assert (STRENGTH[speaker.source], speaker.known_at) >= (STRENGTH[one.source], one.known_at)

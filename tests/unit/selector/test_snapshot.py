"""`select` on a snapshot answers what it would have answered on the store, and refuses what does not fit."""

from __future__ import annotations

import io
import math
import time
from dataclasses import replace

import numpy as np
import pytest

from tests.unit.selector.test_select import LATER, run
from tithe.data.codec import to_json
from tithe.data.errors import ModelError, SnapshotError
from tithe.data.noise import Noise
from tithe.data.observed import Observed
from tithe.data.records import FunctionUse, Observation, Scenario, ScenarioName, Sha
from tithe.data.snapshot import SnapshotFile, unpack
from tithe.selector import learned, snapshot
from tithe.selector.features import State
from tithe.selector.history import History
from tithe.selector.model import INFO_FILE
from tithe.selector.train import train

SEEN = [
    Observation(
        ScenarioName("a"), Sha("1" * 40), 1.0, ("x.py",), ("y.py",), (FunctionUse("x.py", "f", 2, 0.5, 0.1),)
    ),
    Observation(ScenarioName("b"), Sha("2" * 40), 2.0, ()),
]


def packed(world, model=None) -> SnapshotFile:
    noise = {(s.name, s.gate[0]): Noise(0.02, 9.0) for s in world.config.scenarios}
    return unpack(built(world, world.config.scenarios, noise, model, b"scans", time.time()), "x")


def built(world, scenarios, noise, model, scans: bytes, created_at: float) -> bytes:
    history = world.history(40)
    made = State(history, sorted(scenarios, key=lambda scenario: scenario.name))
    made.advance(max(outcome.known_at for outcome in history.outcomes) + 1.0)
    counts = snapshot.Counts(len(history.changes), len(history.outcomes))
    return snapshot.build(
        made,
        history.launch_seconds,
        noise,
        model,
        scans,
        created_at,
        counts,
        Observed(SEEN),
        world.graph.words,
    )


def known(found: snapshot.Snapshot) -> History:
    return History(launch_seconds=found.launch_seconds)


def state(found: snapshot.Snapshot, scenarios: tuple[Scenario, ...]) -> State:
    return State(known(found), sorted(scenarios, key=lambda s: s.name), found.learned)


def test_the_same_selection_as_on_the_store(worlds) -> None:
    world = worlds(1)
    found = snapshot.read(packed(world))
    there = run(world, history=known(found), state=state(found, world.config.scenarios))
    assert to_json(there) == to_json(run(world))
    assert found.noise[world.config.scenarios[0].name, world.config.scenarios[0].gate[0]] == Noise(0.02, 9.0)
    assert found.scans == b"scans"
    launches, uses = found.observed.before(math.inf)
    assert launches == (replace(SEEN[0], functions=()), SEEN[1])
    assert [uses.texts[int(name)] for name in (uses.path[0], uses.name[0])] == ["x.py", "f"]
    assert (uses.calls[0], uses.share[0], uses.own[0]) == (2.0, 0.5, 0.1)
    assert found.known_at >= 2.0
    assert found.words is not None
    assert found.words.texts == world.graph.words.texts
    assert found.words.key.tolist() == world.graph.words.key.tolist()


def test_the_model_travels_too(worlds, models_dir) -> None:
    world = worlds(1)
    report = train(
        world.history(100), world.config, lambda _: world.graph, models_dir, incumbent=None, now=LATER, seed=0
    )
    assert report.version
    found = snapshot.read(packed(world, models_dir / report.version))
    assert found.model is not None
    assert found.file.manifest.model == report.version
    rows = state(found, world.config.scenarios).rows(world.changes[60], world.graph, LATER)
    assert np.isfinite(found.model.probability(rows)).all()


def test_a_model_of_other_features_is_a_fault_and_the_rest_serves(worlds, models_dir) -> None:
    world = worlds(1)
    report = train(
        world.history(100), world.config, lambda _: world.graph, models_dir, incumbent=None, now=LATER, seed=0
    )
    file = packed(world, models_dir / report.version)
    parts = dict(file.parts)
    parts[f"model/{INFO_FILE}"] = parts[f"model/{INFO_FILE}"].replace(b'"lines"', b'"longs"')
    found = snapshot.read(replace(file, parts=parts))
    assert found.model is None
    assert isinstance(found.model_fault, ModelError)
    assert "tithe snapshot publish" in str(found.model_fault)
    assert found.learned.names.scenarios


def test_scenarios_that_came_went_or_moved_find_their_own(worlds) -> None:
    world = worlds(2)
    found = snapshot.read(packed(world))
    kept = world.config.scenarios[3:]
    new = replace(kept[0], name=ScenarioName("aaa-new"))
    there = state(found, (new, *reversed(kept)))
    whole = State(world.history(40), sorted(world.config.scenarios, key=lambda s: s.name))
    whole.advance(LATER)
    assert there.scenarios[0].name == "aaa-new"
    assert not there.measured[0]
    at = [[s.name for s in whole.scenarios].index(s.name) for s in there.scenarios[1:]]
    np.testing.assert_array_equal(there.failures[1:], whole.failures[at])
    assert not found.foreign(kept)
    assert found.foreign((new,))


def test_what_was_learned_cannot_be_learned_again(worlds) -> None:
    world = worlds(1)
    found = snapshot.read(packed(world))
    with pytest.raises(ValueError, match="already"):
        State(world.history(40), world.config.scenarios, found.learned)


@pytest.mark.parametrize("name", list(learned._SHAPES))
def test_arrays_that_do_not_fit_together_are_refused(worlds, name: str) -> None:
    parts = packed(worlds(1)).parts
    with np.load(io.BytesIO(parts[learned.ARRAYS])) as stored:
        arrays = {key: stored[key] for key in stored.files}
    for broken in (arrays[name][..., :-1], arrays[name].astype(np.float32), arrays[name] + 10**6):
        if (
            name in ("start", "at")
            or broken.dtype != arrays[name].dtype
            or broken.shape != arrays[name].shape
        ):
            buffer = io.BytesIO()
            np.savez(buffer, **{**arrays, name: broken})
            with pytest.raises(SnapshotError, match="does not fit together"):
                learned.from_parts(buffer.getvalue(), parts[learned.NAMES], "x")


def test_arrays_are_never_unpickled(worlds) -> None:
    parts = packed(worlds(1)).parts
    with np.load(io.BytesIO(parts[learned.ARRAYS])) as stored:
        arrays = {key: stored[key] for key in stored.files}
    buffer = io.BytesIO()
    np.savez(buffer, **{**arrays, "tick": np.array([object()], dtype=object)})
    with pytest.raises(SnapshotError, match="cannot be read"):
        learned.from_parts(buffer.getvalue(), parts[learned.NAMES], "x")


@pytest.mark.parametrize("content", [b"", b"no archive", None])
def test_damaged_words_are_refused(worlds, content: bytes | None) -> None:
    buffer = io.BytesIO()
    np.savez(buffer, texts=np.zeros(3, dtype=np.float64))
    file = packed(worlds(1))
    parts = {**file.parts, snapshot.WORDS: buffer.getvalue() if content is None else content}
    with pytest.raises(SnapshotError, match=r"words\.npz cannot be read"):
        snapshot.read(replace(file, parts=parts))


def test_equal_knowledge_is_equal_bytes(worlds) -> None:
    world = worlds(1)
    first, second = (
        built(world, scenarios, {}, None, b"", 1.0)
        for scenarios in (world.config.scenarios, tuple(reversed(world.config.scenarios)))
    )
    assert first == second


@pytest.mark.parametrize(
    ("part", "content"),
    [
        (snapshot.COSTS, b'{"a": -1.0}'),
        (snapshot.COSTS, b'{"a": 1e300}'),
        (snapshot.COSTS, b'{"a": "x"}'),
        (snapshot.NOISE, b'[{"scenario": "a", "metric": "m", "sd": -1.0, "df": 3.0}]'),
        (snapshot.NOISE, b'[{"scenario": "a", "metric": "m", "sd": 1.0, "df": 0.0}]'),
        (snapshot.NOISE, b"[1]"),
    ],
)
def test_numbers_that_nothing_can_be_reckoned_with_are_refused(worlds, part: str, content: bytes) -> None:
    file = packed(worlds(1))
    with pytest.raises(SnapshotError, match="damaged"):
        snapshot.read(replace(file, parts={**file.parts, part: content}))


@pytest.mark.parametrize("name", ["failing", "measured", "pair", "authors", "moment", "last_failure"])
def test_what_is_no_number_is_refused(worlds, name: str) -> None:
    parts = packed(worlds(1)).parts
    with np.load(io.BytesIO(parts[learned.ARRAYS])) as stored:
        arrays = {key: stored[key] for key in stored.files}
    arrays[name] = np.full_like(arrays[name], np.nan)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    with pytest.raises(SnapshotError, match=name):
        learned.from_parts(buffer.getvalue(), parts[learned.NAMES], "x")


@pytest.mark.parametrize("name", ["counts", "pair_counts", "tick", "authors", "moment"])
def test_counts_that_cannot_be_are_refused(worlds, name: str) -> None:
    parts = packed(worlds(1)).parts
    with np.load(io.BytesIO(parts[learned.ARRAYS])) as stored:
        arrays = {key: stored[key] for key in stored.files}
    buffer = io.BytesIO()
    np.savez(buffer, **{**arrays, name: np.full_like(arrays[name], -1)})
    with pytest.raises(SnapshotError, match=f"{name} is negative"):
        learned.from_parts(buffer.getvalue(), parts[learned.NAMES], "x")


def test_a_moment_beyond_all_clocks_is_refused(worlds) -> None:
    parts = packed(worlds(1)).parts
    with np.load(io.BytesIO(parts[learned.ARRAYS])) as stored:
        arrays = {key: stored[key] for key in stored.files}
    buffer = io.BytesIO()
    np.savez(buffer, **{**arrays, "moment": np.array([1.0, 1e300])})
    with pytest.raises(SnapshotError, match="moment is no time"):
        learned.from_parts(buffer.getvalue(), parts[learned.NAMES], "x")

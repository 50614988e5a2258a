"""The state as of a moment, and the rows made from it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tithe.data.records import FileEdit, ScenarioName, Sha
from tithe.data.words import tokens
from tithe.selector.features import FAR, FEATURES, MAX_TOUCHED, RUN_FEATURES, State, touched
from tithe.selector.fold import Cells
from tithe.selector.history import History, Labels, labels, replayed
from tithe.selector.paths import kind_of
from tithe.selector.text import index_of, words_of

LATER = 1e9


def labels_of(world, history: History) -> Labels:
    cells = Cells(world.config.scenarios)
    return labels(history.changes, history.in_columns(cells), cells)


def column(rows: np.ndarray, name: str) -> np.ndarray:
    return rows[:, FEATURES.index(name)]


def test_nothing_known_gives_rows_without_history(worlds) -> None:
    world = worlds(1)
    state = State(History(), world.config.scenarios)
    rows = state.rows(world.changes[0], world.graph, LATER)
    assert rows.shape == (len(world.config.scenarios), len(FEATURES))
    assert np.isnan(column(rows, "since_failure")).all()
    assert (column(rows, "co_file") == 0).all()
    assert len(set(column(rows, "rate_20"))) == 1


def test_a_scenario_that_failed_more_often_has_a_higher_rate(worlds) -> None:
    world = worlds(1)
    state = State(world.history(40), world.config.scenarios)
    rates = column(state.rows(world.changes[50], world.graph, LATER), "rate_80")
    often = world.fails[:40].sum(axis=0)
    assert rates[often.argmax()] == rates.max()
    assert rates[often == often.min()].max() < np.median(rates)
    np.testing.assert_array_equal(state.failures, often)


def test_a_file_that_broke_a_scenario_before_raises_it_alone(worlds) -> None:
    world = worlds(1)
    history = world.history(40)
    at = int(np.flatnonzero(world.fails[:40].any(axis=1))[0])
    change = world.changes[at]
    only = replace(history, outcomes=tuple(o for o in history.outcomes if o.change == change.sha))
    state = State(only, world.config.scenarios)
    lift = column(state.rows(replace(change, sha=Sha("f" * 40)), world.graph, LATER), "co_file")
    broken = world.fails[at]
    assert lift[broken].min() > 0 > lift[~broken].max()
    assert state.counts(change.files[0].path, int(np.flatnonzero(broken)[0])) == (1, 1)
    assert state.counts("never/touched.py", 0) == (0, 0)


def test_the_state_never_goes_back(worlds) -> None:
    world = worlds(1)
    state = State(world.history(5), world.config.scenarios)
    state.advance(LATER)
    with pytest.raises(ValueError, match="already"):
        state.advance(LATER - 1)


def test_a_correction_replaces_what_it_corrects(worlds) -> None:
    world = worlds(1)
    history = world.history(10)
    failing = next(o for o in history.outcomes if o.verdict == "regressed")
    mended = replace(failing, verdict="same", known_at=failing.known_at + 1e6, source="human")
    corrected = replace(history, outcomes=(*history.outcomes, mended))
    at = [s.name for s in world.config.scenarios].index(failing.scenario)
    before, after = (State(h, world.config.scenarios) for h in (history, corrected))
    before.advance(LATER)
    after.advance(LATER)
    assert after.failures[at] == before.failures[at] - 1
    assert after.measured[at] == before.measured[at]
    was, now = labels_of(world, history), labels_of(world, corrected)
    assert len(now) == len(was)
    assert now.failing.sum() == was.failing.sum() - 1


def test_outcomes_over_a_range_label_no_change(worlds) -> None:
    world = worlds(1)
    wide = tuple(replace(o, base=Sha("e" * 40)) for o in world.history(10).outcomes)
    history = History(world.changes, wide)
    assert len(labels_of(world, history)) == 0
    state = State(history, world.config.scenarios)
    rows = state.rows(world.changes[20], world.graph, LATER)
    assert (column(rows, "co_file") == 0).all()
    assert state.failures.sum() == world.fails[:10].sum()


def test_metrics_that_do_not_decide_and_errors_and_strangers_are_ignored(worlds) -> None:
    world = worlds(1)
    first = world.history(1).outcomes[0]
    odd = (
        replace(first, metric="rss", verdict="regressed"),
        replace(first, verdict="error"),
        replace(first, scenario=ScenarioName("gone"), verdict="regressed"),
    )
    state = State(History(world.changes, odd), world.config.scenarios)
    state.advance(LATER)
    assert state.tick == 0


def test_a_replay_hides_the_newest_labels_and_keeps_what_was_inferred(worlds) -> None:
    world = worlds(1)
    late = world.history(10, known=1e8)
    cells = Cells(world.config.scenarios)
    seen = replayed(world.changes, late.in_columns(cells), lag=1)
    position = {change.sha: at for at, change in enumerate(world.changes)}
    for number, known_at in zip(seen.comparison.tolist(), seen.known_at.tolist(), strict=True):
        assert known_at == world.changes[position[seen.comparisons[number][1]] + 1].time
    assert (np.diff(seen.known_at) >= 0).all()
    inferred = replace(late, outcomes=tuple(replace(o, source="bisect") for o in late.outcomes))
    kept = replayed(world.changes, inferred.in_columns(cells))
    np.testing.assert_array_equal(kept.known_at, inferred.in_columns(cells).known_at)


def test_files_outside_the_graph_lean_on_their_folder(worlds) -> None:
    world = worlds(1)
    known = next(
        path for path in world.graph.files if path.startswith("pkg/models/") and "__init__" not in path
    )
    new = replace(world.changes[0], files=(FileEdit("pkg/models/brand_new.py", 10, 0),))
    odd = replace(world.changes[0], files=(FileEdit("elsewhere/x.py", 10, 0),))
    near = touched(new, world.graph, world.config.scenarios)
    assert 0 < near.proximity.max() < world.graph.proximity[:, world.graph.column[known]].max() + 1
    assert not np.isfinite(near.distance).any()
    assert (touched(odd, world.graph, world.config.scenarios).proximity == 0).all()


@pytest.mark.parametrize(
    "files",
    [
        (),
        tuple(FileEdit(f"pkg/f{i}.py", 1, 0) for i in range(10 * MAX_TOUCHED)),
        (FileEdit("image.png", -1, -1),),
        (FileEdit("b.py", 0, 0, old_path="a.py"),),
    ],
    ids=["empty", "huge", "binary", "renamed"],
)
def test_odd_changes_give_finite_rows(worlds, files) -> None:
    world = worlds(1)
    state = State(world.history(20), world.config.scenarios)
    rows = state.rows(replace(world.changes[30], files=files), world.graph, LATER)
    may_miss = {"since_failure", "noise", *RUN_FEATURES}
    for name in FEATURES:
        assert name in may_miss or np.isfinite(column(rows, name)).all(), name
    assert (column(rows, "distance") <= FAR).all()


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("src/a.py", "code"),
        ("conf/a.yaml", "config"),
        ("requirements-dev.txt", "dependencies"),
        ("pyproject.toml", "dependencies"),
        ("uv.lock", "dependencies"),
        ("tests/test_a.py", "tests"),
        ("docs/a.py", "docs"),
        ("README.md", "docs"),
        ("data/a.bin", "other"),
    ],
)
def test_kinds_of_paths(path: str, kind: str) -> None:
    assert kind_of(path) == kind


def test_identifiers_are_split() -> None:
    assert tokens("models/TokenCache_v2.py HTTPServer logs") == [
        "model",
        "token",
        "cache",
        "http",
        "server",
        "log",
    ]


def test_text_finds_the_scenario_that_a_change_speaks_of(worlds) -> None:
    world = worlds(1)
    index = index_of(world.config.scenarios)
    name = "mlp-small"
    change = replace(world.changes[0], subject="Tune the small mlp", files=())
    score = index.score(words_of(change))
    assert world.config.scenarios[int(score.argmax())].name == name
    assert set(index.shared(words_of(change), int(score.argmax()))) == {"mlp", "small"}
    assert index.score(words_of(replace(change, subject="Nothing in common"))).max() == 0

"""From history to a model: what is said, what is saved, what is promoted, and that it is worth it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tithe.data.errors import ModelError
from tithe.selector import prior
from tithe.selector import train as training
from tithe.selector.backtest import Case, evaluate, ranked_by
from tithe.selector.features import FEATURES, State
from tithe.selector.fold import Cells
from tithe.selector.history import History
from tithe.selector.model import (
    INFO_FILE,
    TREES_FILE,
    Calibration,
    Model,
    fit_calibration,
    next_version,
    share_of,
)
from tithe.selector.policies import FREQUENCY, GRAPH_ONLY, PRIOR, RANDOM
from tithe.selector.rank import Ranking, context_of
from tithe.selector.train import Rows, Walk, _compare, train

LATER = 1e9


def trained(world, models_dir: Path, changes: int = 60, **more):
    return train(
        world.history(changes), world.config, lambda _: world.graph, models_dir, now=LATER, seed=3, **more
    )


def test_a_model_is_saved_and_comes_back(worlds, models_dir) -> None:
    world = worlds(1)
    report = trained(world, models_dir)
    assert report.version == "001"
    model = Model.load(models_dir / "001")
    assert model.info.features == FEATURES
    assert model.info.evidence == report.evidence
    assert report.evidence.failing_pairs == world.fails[:60].sum()
    assert model.info.backtest == report.backtest
    assert {row.policy for row in report.backtest.rows} == {
        "model",
        "prior",
        "random",
        "graph-only",
        "frequency/cost",
    }
    assert sorted(path.name for path in models_dir.iterdir()) == ["001"]


def test_the_same_history_gives_the_same_bytes(worlds, models_dir, tmp_path) -> None:
    world = worlds(1)
    trained(world, models_dir)
    trained(world, tmp_path / "other")
    for name in (TREES_FILE, INFO_FILE):
        assert (models_dir / "001" / name).read_bytes() == (tmp_path / "other" / "001" / name).read_bytes()


def test_versions_count_up_past_what_is_there(tmp_path) -> None:
    for name in ("001", "017", "notes", ".new-x"):
        (tmp_path / name).mkdir()
    assert next_version(tmp_path) == "018"
    assert next_version(tmp_path / "absent") == "001"


def test_what_is_known_later_is_not_used(worlds, models_dir) -> None:
    world = worlds(1)
    history = world.history(60)
    moment = world.changes[40].time
    report = train(history, world.config, lambda _: world.graph, models_dir, now=moment, seed=3)
    assert report.evidence.changes == sum(1 for c in world.changes if c.time + 1800 < moment)


def test_nothing_to_learn_from(worlds, models_dir) -> None:
    world = worlds(1)
    history = world.history(20)
    passing = replace(history, outcomes=tuple(replace(o, verdict="same") for o in history.outcomes))
    failing = replace(history, outcomes=tuple(replace(o, verdict="broken") for o in history.outcomes))
    for odd, word in ((History(), "failed"), (passing, "failed"), (failing, "passed")):
        report = train(odd, world.config, lambda _: world.graph, models_dir, now=LATER, seed=3)
        assert (report.version, report.better) == ("", False)
        assert word in report.why
        assert "prior serves" in report.why
    assert not models_dir.exists()


def test_too_few_faulty_changes_to_prove_anything(worlds, models_dir) -> None:
    world = worlds(1)
    third = int(np.flatnonzero(world.fails.any(axis=1))[2])
    report = trained(world, models_dir, changes=third + 1)
    assert report.version == "001"
    assert not report.better
    assert report.backtest.rows == ()
    assert "too few" in report.why


def test_promotion_follows_the_backtest(worlds, models_dir) -> None:
    world = worlds(1)
    report = trained(world, models_dir)
    assert report.better == _compare(report.backtest, "prior")[0]
    assert ("no better than the prior" in report.why) != report.better


def test_an_incumbent_that_knows_as_much_serves_on(worlds, models_dir) -> None:
    world = worlds(1)
    trained(world, models_dir)
    incumbent = Model.load(models_dir / "001")
    report = trained(world, models_dir, incumbent=incumbent)
    assert report.version == "002"
    assert not report.better


def test_an_incumbent_is_compared_on_what_it_never_saw(worlds, models_dir) -> None:
    found = set()
    for seed in (1, 2, 3, 4):
        world = worlds(seed)
        trained(world, models_dir, changes=40)
        incumbent = Model.load(max(models_dir.iterdir()))
        report = trained(world, models_dir, changes=100, incumbent=incumbent)
        assert f"version {incumbent.version} was not trained on" in report.why or "prior" in report.why
        found.add("was not trained on" in report.why)
    assert True in found


class TestDamage:
    @pytest.fixture
    def folder(self, worlds, models_dir) -> Path:
        trained(worlds(1), models_dir)
        return models_dir / "001"

    def refused(self, folder: Path, words: str) -> None:
        with pytest.raises(ModelError, match=words) as caught:
            Model.load(folder)
        assert caught.value.mend
        assert str(folder) in str(caught.value)

    def test_missing(self, tmp_path) -> None:
        self.refused(tmp_path / "none", "cannot be read")

    @pytest.mark.parametrize("name", [TREES_FILE, INFO_FILE])
    def test_cut_short(self, folder, name) -> None:
        (folder / name).write_bytes((folder / name).read_bytes()[:-30])
        self.refused(folder, "damaged")

    def test_edited_numbers(self, folder) -> None:
        path = folder / INFO_FILE
        path.write_text(path.read_text().replace('"seed": 3', '"seed": 4'))
        self.refused(folder, "hash")

    def test_another_format(self, folder) -> None:
        path = folder / INFO_FILE
        document = json.loads(path.read_text())
        document["format"] = 99
        path.write_text(json.dumps(document))
        self.refused(folder, "format 99")

    def test_other_features(self, folder, monkeypatch) -> None:
        monkeypatch.setattr("tithe.selector.model.FEATURES", (*FEATURES, "more"))
        self.refused(folder, "other features.*more")

    def test_another_prior(self, folder, monkeypatch) -> None:
        monkeypatch.setattr(prior, "VERSION", 99)
        self.refused(folder, "prior")


def test_calibration_finds_what_was_bent_and_distrusts_little_evidence() -> None:
    rng = np.random.default_rng(0)
    true = rng.normal(-2, 1.5, 200_000)
    label = (rng.random(len(true)) < prior.expit(true)).astype(float)
    found = fit_calibration((true - 0.7) / 0.5, label, np.ones(len(true)))
    assert found.slope == pytest.approx(0.5, abs=0.02)
    assert found.intercept == pytest.approx(0.7, abs=0.05)
    few = fit_calibration(np.array([-3.0, 1.0]), np.array([0.0, 1.0]), np.ones(2))
    assert abs(few.slope - 1) < 0.2
    against = fit_calibration(true, 1 - label, np.ones(len(true)))
    assert against == Calibration()


def test_the_share_of_the_model_grows_with_evidence() -> None:
    shares = [share_of(faulty) for faulty in (0, 1, 10, 40, 1000)]
    assert shares[0] == 0
    assert shares == sorted(shares)
    assert shares[-1] < 1


def test_metrics_of_a_backtest_by_hand(worlds) -> None:
    world = worlds(1)
    state = State(History(), world.config.scenarios)
    context = context_of(state, world.changes[0], world.graph, LATER, 0)
    count = len(world.config.scenarios)
    label = np.zeros(count)
    label[[1, 4]] = 1
    case = Case(context, label, np.ones(count))
    order = -np.arange(count, dtype=float)
    flat = replace(context, launch_seconds=np.ones(count))
    found = evaluate(
        [replace(case, context=flat)],
        {"by hand": lambda _: Ranking(np.full(count, 0.1), order=order)},
        budgets=(2 / count, 5 / count + 1e-9),
    )
    row = found.rows[0]
    assert row.change_recall == (1.0, 1.0)
    assert row.pair_recall == (0.5, 1.0)
    assert row.apfd == pytest.approx(1 - (2 + 5) / (count * 2) + 1 / (2 * count))
    assert row.log_loss is None
    assert (found.changes, found.faulty, found.pairs, found.failing_pairs) == (1, 1, count, 2)


def later_cases(world, history: History, first: int) -> list[Case]:
    """The changes after the history, each before it was measured."""
    state = State(history, world.config.scenarios)
    return [
        Case(
            context_of(state, change, world.graph, max(change.time, state.now), 5),
            world.fails[at].astype(float),
            np.ones(len(world.config.scenarios)),
        )
        for at, change in enumerate(world.changes)
        if at >= first
    ]


def test_on_planted_histories_model_and_prior_beat_graph_only_which_beats_random(worlds, models_dir) -> None:
    """Forty measured changes, some nine of them faulty; sixty later ones are scored, on ten seeds."""
    found: dict[str, list[list[float]]] = {}
    for seed in range(20, 30):
        world = worlds(seed)
        history = world.history(40)
        report = train(history, world.config, lambda _, w=world: w.graph, models_dir, now=LATER, seed=seed)
        model = Model.load(models_dir / report.version)
        cases = later_cases(world, history, 40)
        rankers = (model.ranker(), PRIOR, GRAPH_ONLY, FREQUENCY, RANDOM)
        scored = evaluate(cases, {r.name: ranked_by(r, cases) for r in rankers}, budgets=(0.10, 0.25))
        for row in scored.rows:
            name = "model" if row.policy == model.version else row.policy
            found.setdefault(name, []).append([*row.change_recall, *row.pair_recall])
    mean = {name: np.mean(values, axis=0) for name, values in found.items()}
    for ours in ("model", "prior"):
        assert mean[ours].mean() > mean["graph-only"].mean()
        assert mean[ours].mean() > mean["frequency/cost"].mean()
        assert (mean[ours] > mean["random"] + 0.1).all()
    assert (mean["graph-only"] > mean["random"]).all()


def test_rows_of_training_are_made_before_their_labels(worlds) -> None:
    """A label must not move the features of its own change, however early it claims to be known."""
    world = worlds(1)
    history = world.history(30)
    early = tuple(replace(o, known_at=world.changes[0].time) for o in history.outcomes)

    def cases(of: History) -> list[Case]:
        return list(Walk(of, world.config.scenarios, LATER).cases(lambda _: world.graph, 0))

    assert len(cases(history)) == 30
    first = cases(replace(history, outcomes=early))[0]
    assert (first.context.rows[:, FEATURES.index("measured")] == 0).all()


def test_a_model_of_earlier_time_sees_no_later_label(worlds, models_dir, monkeypatch) -> None:
    """At each border of the backtest, what became known later must not count, also of changes before it."""
    world = worlds(1)
    seen: list[tuple[float, int]] = []
    whole = Walk.labels_at

    def told(self: Walk, t: float):
        found = whole(self, t)
        seen.append((t, int(found.change.max())))
        return found

    monkeypatch.setattr(Walk, "labels_at", told)
    trained(world, models_dir)
    assert len(seen) == training.FOLDS
    for t, latest in seen:
        assert world.changes[latest].time < t
        # The change just before the border is known only once the next one has come.
        assert world.changes[latest + 1].time == pytest.approx(t) or world.changes[latest + 1].time < t


def test_what_is_left_out_of_training_counts_through_what_stays(worlds, monkeypatch) -> None:
    world = worlds(1)
    walk = Walk(world.history(60), world.config.scenarios, LATER)
    cases = list(walk.cases(lambda _: world.graph, 0))
    monkeypatch.setattr(training, "LEAST_PASSING", 200)
    monkeypatch.setattr(training, "PASSING_FOR_ONE", 1)
    found = []
    for seed in range(20):
        rows = Rows(walk.labels, seed)
        for case in cases:
            rows.add(case)
        parts, label, weight, start = rows.labelled(walk.labels, len(walk.scenarios))
        assert sum(len(part) for part in parts) == len(label) == len(start) < len(walk.labels)
        assert label.sum() == walk.labels.failing.sum()
        assert (weight[label > 0] == 1).all()
        found.append(weight.sum())
    assert np.mean(found) == pytest.approx(len(walk.labels), rel=0.02)


def test_training_from_columns_is_training_from_records(worlds, models_dir, tmp_path) -> None:
    world = worlds(1)
    history = world.history(60)
    cells = Cells(sorted(world.config.scenarios, key=lambda s: s.name))
    columns = replace(history, outcomes=(), columns=history.in_columns(cells))
    found = [
        train(one, world.config, lambda _: world.graph, folder, now=LATER, seed=3)
        for one, folder in ((history, models_dir), (columns, tmp_path / "other"))
    ]
    assert found[0] == found[1]
    for name in (TREES_FILE, INFO_FILE):
        assert (models_dir / "001" / name).read_bytes() == (tmp_path / "other" / "001" / name).read_bytes()

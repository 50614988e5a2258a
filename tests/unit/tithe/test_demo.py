"""The demo's history as data: what every seed promises, before any repository is written."""

from __future__ import annotations

import ast

import pytest

from tithe.demo.answers import REGRESSING, answers, regressing, scenario_names
from tithe.demo.timeline import commits
from tithe.demo.write import RECORDED

SEEDS = (0, 1, 2, 17)
KINDS = {*REGRESSING, "improvement", "crash", "uncheckable"}


def border(seed: int) -> int:
    return next(at for at, commit in enumerate(commits(seed)) if commit.step.tag == "v0.3")


@pytest.mark.parametrize("seed", SEEDS)
def test_shape_of_the_history(seed: int) -> None:
    history = commits(seed)
    assert len(history) >= 60
    assert len({commit.person for commit in history}) >= 3
    assert sum(bool(commit.step.tag) for commit in history) >= 3
    last = history[-1].files
    modules = [path for path in last if path.startswith("trainlab/") and path.endswith(".py")]
    assert len(modules) >= 30
    assert len(scenario_names(last["tithe.toml"])) >= 16
    times = [int(commit.time) for commit in history]
    assert times == sorted(times)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_kind_of_fault_is_in_the_new_era(seed: int) -> None:
    new = [fault for fault in answers(seed) if not fault.recorded]
    assert {fault.kind for fault in new} >= KINDS
    assert all(fault.scenarios for fault in new)
    assert any(len(fault.scenarios) <= 3 for fault in regressing(seed))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_uncheckable_change_lies_between_releases_that_hold_another_fault(seed: int) -> None:
    history = commits(seed)
    at = next(fault.index for fault in answers(seed) if fault.kind == "uncheckable" and not fault.recorded)
    tags = [number for number, commit in enumerate(history) if commit.step.tag]
    low, high = max(n for n in tags if n < at), min(n for n in tags if n >= at)
    assert any(low < fault.index <= high and fault.kind in REGRESSING for fault in answers(seed))


def test_the_seed_moves_the_faults_of_the_new_era_only() -> None:
    shas = {seed: [commit.sha for commit in commits(seed)] for seed in SEEDS}
    at = border(0)
    for seed in SEEDS[1:]:
        assert shas[seed][: at + 1] == shas[0][: at + 1]
        assert shas[seed][at + 1 :] != shas[0][at + 1 :]
    placed = {tuple((f.index, f.key) for f in regressing(seed)) for seed in SEEDS}
    assert len(placed) == len(SEEDS)


@pytest.mark.parametrize("seed", SEEDS)
def test_all_code_parses_except_under_the_uncheckable_change(seed: int) -> None:
    broken = {fault.sha for fault in answers(seed) if fault.kind == "uncheckable"}
    seen: set[str] = set()
    for commit in commits(seed):
        fails = False
        for path, text in commit.files.items():
            if path.endswith(".py") and text not in seen:
                try:
                    ast.parse(text)
                    seen.add(text)
                except SyntaxError:
                    fails = True
        assert fails == (commit.sha in broken), commit.step


def test_no_fault_is_a_sleep_and_none_is_named_in_the_repository() -> None:
    for seed in SEEDS:
        keys = {fault.key for fault in answers(seed)}
        for commit in commits(seed):
            assert not any("sleep" in text for path, text in commit.files.items() if path.endswith(".py"))
            assert not any(key in commit.message for key in keys)


def test_the_recorded_history_fits_every_demo() -> None:
    from tithe.data.records import Outcome
    from tithe.data.spool import read_bundle

    bundles = sorted(RECORDED.glob("*.tithe.jsonl.gz"))
    assert bundles
    assert sum(path.stat().st_size for path in bundles) < 400_000
    history = commits(0)
    recorded = {commit.sha: commit for commit in history[: border(0) + 1]}
    names = set(scenario_names(history[border(0)].files["tithe.toml"]))
    outcomes = [record for path in bundles for record in read_bundle(path) if isinstance(record, Outcome)]
    assert {outcome.change for outcome in outcomes} == {sha for sha in recorded if recorded[sha].parent}
    for outcome in outcomes:
        assert outcome.scenario in names
        assert outcome.base == recorded[outcome.change].parent
        assert outcome.known_at == int(recorded[outcome.change].time) + 3600
    verdicts = {outcome.verdict for outcome in outcomes}
    assert {"regressed", "same", "improved", "broken", "fixed"} <= verdicts


def test_the_recorded_verdicts_agree_with_the_answer_key() -> None:
    """Measured on a real host: a few faults near the threshold may hide, but hardly anything may be made up."""
    from tithe.data.records import FAILING, Outcome
    from tithe.data.spool import read_bundle

    outcomes = [
        record
        for path in RECORDED.glob("*.tithe.jsonl.gz")
        for record in read_bundle(path)
        if isinstance(record, Outcome) and record.verdict in FAILING
    ]
    truth = {fault.sha: set(fault.scenarios) for fault in answers(0) if fault.recorded}
    right = [o for o in outcomes if o.scenario in truth.get(o.change, set())]
    assert len(right) >= 8
    assert len(outcomes) - len(right) <= len(outcomes) // 5

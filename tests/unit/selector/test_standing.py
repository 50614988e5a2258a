"""What is kept beside a store is what learning anew comes to, to the last bit; and it is given up when in doubt."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tithe.data.records import (
    BUILTIN_METRICS,
    Change,
    FileEdit,
    Launch,
    MetricName,
    Outcome,
    Scenario,
    ScenarioName,
    Sha,
)
from tithe.data.store import Store
from tithe.selector.features import State
from tithe.selector.fold import Cells
from tithe.selector.history import History, in_order, labels
from tithe.selector.learned import Learned
from tithe.selector.standing import ARRAYS, CURRENT, FOLDER, INFO, Standing, standing

GATES = {"a": ("ttfb",), "b": ("ttfb", "rss"), "c": ("ttfb",), "d": ("wall", "ttfb")}
SHAS = [Sha(f"{n:040x}") for n in range(1, 9)]


def scenario(name: str, gate: Sequence[str] = ("ttfb",)) -> Scenario:
    metrics = tuple(BUILTIN_METRICS[MetricName(m)] for m in dict.fromkeys((*gate, "ttfb", "wall", "rss")))
    return Scenario(
        name=ScenarioName(name),
        command=("python", "x.py"),
        metrics=metrics,
        gate=tuple(map(MetricName, gate)),
    )


SCENARIOS = tuple(scenario(name, gate) for name, gate in GATES.items())
CHANGES = tuple(
    Change(
        sha=sha,
        parent=SHAS[at - 1] if at else Sha(""),
        index=at,
        author="ada" if at % 3 else "bob",
        time=float(at),
        subject="x",
        files=tuple(FileEdit(f"pkg/{'ab'[n % 2]}/f{(at * n) % 4}.py", 1, 1) for n in range(1 + at % 3)),
    )
    for at, sha in enumerate(SHAS)
)

outcomes = st.builds(
    Outcome,
    base=st.sampled_from(SHAS[:3]),
    change=st.sampled_from(SHAS[1:4]),
    scenario=st.sampled_from([ScenarioName(name) for name in (*GATES, "a", "a", "b", "gone")]),
    metric=st.sampled_from([MetricName(m) for m in ("ttfb", "ttfb", "rss", "wall")]),
    verdict=st.sampled_from(["regressed", "same", "broken", "same", "error", "improved"]),
    known_at=st.one_of(st.sampled_from([1.0, 2.0, 3.0]), st.floats(0.0, 12.0)),
    source=st.sampled_from(["ab", "import", "bisect", "human", "sweep"]),
    picked=st.just("chosen"),
    confidence=st.sampled_from([0.3, 0.9, 0.1234567]),
    weight=st.sampled_from([1.0, 0.7, 0.05]),
)
histories = st.lists(outcomes, min_size=8, max_size=40)


def near(found: list[Outcome]) -> list[Outcome]:
    """Most outcomes are of a change against its parent; the strategy alone would nearly never draw one."""
    parent = {change.sha: change.parent for change in CHANGES}
    return [
        replace(o, base=parent[o.change]) if at % 4 and parent[o.change] else o for at, o in enumerate(found)
    ]


def of(
    store: Store, cache: Path | None, scenarios: Sequence[Scenario] = SCENARIOS, *, keep: bool = True
) -> Standing:
    return standing(store, scenarios, cache, lambda _: {}, keep=keep)


def same(one: Learned, other: Learned) -> None:
    assert one.names == other.names
    for name in (each.name for each in fields(Learned) if each.name not in ("names", "moment")):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name, strict=True)
    assert one.moment[0] == other.moment[0]


def learned(found: Standing) -> Learned:
    found.state.advance(1e9)
    return found.state.learned()


@settings(max_examples=60, deadline=None)
@given(histories, st.lists(st.integers(0, 40), max_size=4))
def test_going_on_comes_to_what_beginning_anew_comes_to(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[Outcome], cuts: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("standing")
    ordered = in_order(near(drawn))
    with Store.open(folder / "store.db") as store:
        store.add_changes(CHANGES)
        for low, high in zip([0, *sorted(cuts)], [*sorted(cuts), len(ordered)], strict=True):
            store.add_outcomes(ordered[low:high])
            kept = of(store, folder)
        anew = of(store, None)
        same(learned(kept), learned(anew))
        assert kept.newest == anew.newest
    # And to what the records themselves come to, which is what a model is trained on.
    state = State(History(CHANGES, tuple(ordered)), SCENARIOS)
    state.advance(1e9)
    same(state.learned(), learned(anew))


@settings(max_examples=40, deadline=None)
@given(histories, histories, st.sampled_from([1.5, 2.5, 3.0, 8.0]))
def test_no_later_record_changes_what_was_known(
    tmp_path_factory: pytest.TempPathFactory, before: list[Outcome], after: list[Outcome], moment: float
) -> None:
    """Also one that supersedes: until it came, what it supersedes was what was known."""
    folder = tmp_path_factory.mktemp("past")
    past = [o for o in near(before) if o.known_at < moment]
    later = [o for o in near(after) if o.known_at >= moment]
    found = []
    for name, records in (("past.db", past), ("whole.db", [*past, *later])):
        with Store.open(folder / name) as store:
            store.add_changes(CHANGES)
            store.add_outcomes(records)
            state = State(History(CHANGES, tuple(store.outcomes(superseded=True))), SCENARIOS)
            state.advance(moment)
            found.append(state.learned())
    same(*found)


def one(change: int, name: str = "a", known_at: float = 1.0, **more: object) -> Outcome:
    given: dict[str, object] = {"verdict": "regressed", "source": "ab", **more}
    return Outcome(
        base=SHAS[change - 1], change=SHAS[change], scenario=ScenarioName(name), metric=MetricName("ttfb"),
        known_at=known_at, picked="chosen", **given,
    )  # type: ignore[arg-type]  # fmt: skip


@pytest.fixture
def store(tmp_path: Path):
    with Store.open(tmp_path / "store.db") as store:
        store.add_changes(CHANGES)
        store.add_outcomes([one(1), one(2, known_at=2.0), one(2, "gone", 2.0)])
        of(store, tmp_path)
        yield store


def test_only_what_is_new_is_learned(store: Store, tmp_path: Path) -> None:
    found = of(store, tmp_path)
    assert (found.fresh, found.rebuilt) == (0, "")
    store.add_outcomes([one(3, known_at=3.0), one(2, known_at=4.0, verdict="same", source="human")])
    found = of(store, tmp_path, keep=False)
    assert (found.fresh, found.rebuilt) == (2, "")
    assert of(store, tmp_path, keep=False).fresh == 2, "little that is new is not kept"
    same(learned(found), learned(of(store, None)))


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("late", "came late"),
        ("at once", "came late"),
        ("gate", "decided otherwise"),
        ("removed", "is gone"),
        ("stranger", "was measured before"),
        ("change", "said otherwise"),
        ("other store", "another store"),
        ("damaged", "nothing is kept"),
        ("truncated", "nothing is kept"),
        ("pointer", "nothing is kept"),
        ("version", "another version"),
    ],
)
def test_in_doubt_it_is_begun_anew(store: Store, tmp_path: Path, what: str, why: str) -> None:
    scenarios = SCENARIOS
    folder = tmp_path / FOLDER
    place = folder / (folder / CURRENT).read_text()
    if what == "late":
        store.add_outcomes([one(3, known_at=1.5)])
    elif what == "at once":
        store.add_outcomes([one(3, known_at=2.0)])
    elif what == "gate":
        scenarios = (scenario("a", ("wall",)), *SCENARIOS[1:])
    elif what == "removed":
        scenarios = SCENARIOS[1:]
    elif what == "stranger":
        scenarios = (*SCENARIOS, scenario("gone"))
    elif what == "change":
        store.add_changes([replace(CHANGES[2], index=9, files=(FileEdit("other.py", 1, 1),))])
    elif what == "other store":
        store = Store.open(tmp_path / "other.db")
        store.add_changes(CHANGES)
        store.add_outcomes([one(1), one(4, known_at=2.0), one(2, "gone", 2.0)])
    elif what == "damaged":
        (place / INFO).write_text("{" * 9)
    elif what == "truncated":
        path = place / "failing.npy"
        path.write_bytes(path.read_bytes()[:-8])
    elif what == "pointer":
        (folder / CURRENT).write_text("../../../etc")
    else:
        info = (place / INFO).read_text()
        (place / INFO).write_text(info.replace('"version":1', '"version":0'))
    found = of(store, tmp_path, scenarios)
    assert why in found.rebuilt
    same(learned(found), learned(of(store, None, scenarios)))
    assert of(store, tmp_path, scenarios).rebuilt == "", "and the next one goes on from there"


def test_a_new_scenario_needs_no_new_beginning(store: Store, tmp_path: Path) -> None:
    scenarios = (scenario("0"), *SCENARIOS)
    store.add_outcomes([one(3, "0", 5.0)])
    found = of(store, tmp_path, scenarios)
    assert found.rebuilt == ""
    same(learned(found), learned(of(store, None, scenarios)))


def test_costs_and_noise_are_brought_up_to_date(store: Store, tmp_path: Path) -> None:
    def launches(run: str, seconds: float) -> list[Launch]:
        return [
            Launch(
                id=f"{run}-{block}-{at}", run=run, scenario=ScenarioName("a"), arm=arm, sha=SHAS[1 + (arm == "head")],
                stage="first", block=block, position=at, place="a", started_at=float(block), seconds=seconds,
                status="ok", exit_code=0, values={MetricName("ttfb"): seconds + block * 0.01 + at * 0.003},
            )
            for block in range(4)
            for at, arm in enumerate(("base", "head", "head", "base"))
        ]  # type: ignore[arg-type]  # fmt: skip

    for run in ("r1", "r2", "r3"):
        store.add_launches(launches(run, 1.0 + len(run) + 0.1 * int(run[1])))
        kept, anew = of(store, tmp_path), of(store, None)
        assert kept.launch_seconds == anew.launch_seconds == store.launch_seconds()
        assert kept.noise == anew.noise == store.noise()
        assert kept.noise


def test_a_folder_that_cannot_be_written_costs_time_alone(store: Store, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / FOLDER)
    (tmp_path / FOLDER).write_text("in the way")
    found = of(store, tmp_path)
    assert found.fresh == 3
    same(learned(found), learned(of(store, None)))


def test_every_array_is_kept() -> None:
    assert set(ARRAYS) | {"names"} == {each.name for each in fields(Learned)}


def test_a_superseded_outcome_labels_nothing_and_was_known_until_then() -> None:
    false_alarm = one(2, known_at=1.0)
    corrected = one(2, known_at=5.0, verdict="same", source="human")
    late_machine = one(2, known_at=6.0, verdict="regressed")
    history = History(CHANGES, (late_machine, corrected, false_alarm))
    cells = Cells(SCENARIOS)
    assert labels(history.changes, history.in_columns(cells), cells).failing.tolist() == [False]
    state = State(history, SCENARIOS)
    state.advance(2.0)
    assert state.failures[0] == 1
    state.advance(9.0)
    assert state.failures[0] == 0

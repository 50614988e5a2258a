"""What must hold for any history, any diff and any budget."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tithe.data.codec import to_json
from tithe.data.graph import ScenarioGraph
from tithe.data.records import Change, FileEdit, MetricName, Outcome, Scenario, ScenarioName, Sha
from tithe.selector.features import State
from tithe.selector.history import History
from tithe.selector.learned import from_parts, to_parts
from tithe.selector.schedule import schedule, value_of
from tithe.selector.select import select

NAMES = tuple(ScenarioName(f"s{i}") for i in range(5))
SCENARIOS = tuple(
    Scenario(name, ("python", f"{name}.py"), resource="gpu" if name == "s4" else "cpu") for name in NAMES
)
PATHS = ("s0.py", "a/x.py", "a/y.py", "b/z.yaml", "requirements.txt", "README.md", "gone.py")


@dataclass(frozen=True)
class Config:
    scenarios: tuple[Scenario, ...] = SCENARIOS


def sha(number: int) -> Sha:
    return Sha(f"{number:040x}")


@st.composite
def changes(draw: st.DrawFn, first: int = 1, count: int = 8) -> tuple[Change, ...]:
    made = []
    for number in range(first, first + count):
        paths = draw(st.lists(st.sampled_from(PATHS), max_size=4, unique=True))
        edits = tuple(FileEdit(path, draw(st.integers(-1, 50)), draw(st.integers(0, 9))) for path in paths)
        subject = draw(st.sampled_from(["", "Speed up s0", "tune a/x \x1b[0m", "Fix"]))
        author = draw(st.sampled_from("ab"))
        made.append(Change(sha(number), sha(number - 1), number, author, 1000.0 * number, subject, edits))
    return tuple(made)


def outcomes(numbers: st.SearchStrategy[int], known: st.SearchStrategy[float]) -> st.SearchStrategy[Outcome]:
    return st.builds(
        lambda number, wide, scenario, metric, verdict, known_at, source, weight: Outcome(
            sha(number - 1 - wide),
            sha(number),
            scenario,
            MetricName(metric),
            verdict,
            known_at,
            source,
            "swept",
            weight=weight,
        ),
        numbers,
        st.sampled_from([0, 0, 0, 2]),
        st.sampled_from([*NAMES, ScenarioName("stranger")]),
        st.sampled_from(["ttfb", "ttfb", "rss"]),
        st.sampled_from(["regressed", "broken", "same", "improved", "inconclusive", "error"]),
        known,
        st.sampled_from(["ab", "bisect", "import", "human", "sweep"]),
        st.floats(0.0, 1.0),
    )


@st.composite
def graphs(draw: st.DrawFn) -> ScenarioGraph:
    files = PATHS[:-2]
    size = len(NAMES) * len(files)
    hops = draw(st.lists(st.sampled_from([0.0, 1.0, 2.0, np.inf]), min_size=size, max_size=size))
    distance = np.array(hops, dtype=np.float32).reshape(len(NAMES), len(files))
    proximity = np.where(np.isfinite(distance), 0.7**distance, 0.0).astype(np.float32)
    return ScenarioGraph(NAMES, files, distance, proximity)


MOMENT = 6500.0
EARLY = st.floats(0.0, MOMENT, exclude_max=True)
LATE = st.floats(MOMENT, 1e9)


@given(
    changes(),
    st.lists(outcomes(st.integers(3, 12), EARLY), max_size=40),
    st.lists(outcomes(st.integers(3, 16), LATE), max_size=20),
    changes(first=9, count=4),
    graphs(),
)
@settings(max_examples=60, deadline=None)
def test_no_future_in_a_feature(past, known, unknown, later, graph) -> None:
    head = past[-1]
    before = State(History(past, tuple(known)), SCENARIOS).rows(head, graph, MOMENT)
    whole = State(History(past + later, tuple(unknown + known)), SCENARIOS).rows(head, graph, MOMENT)
    # A later change gives its files to outcomes that name it; none such is known by now.
    if not any(outcome.change in {change.sha for change in later} for outcome in known):
        np.testing.assert_array_equal(before, whole)
    with_outcomes_only = State(History(past, tuple(unknown + known)), SCENARIOS).rows(head, graph, MOMENT)
    np.testing.assert_array_equal(before, with_outcomes_only)


@given(
    changes(),
    st.lists(
        outcomes(st.integers(3, 10), EARLY), max_size=40, unique_by=lambda o: (o.change, o.scenario, o.metric)
    ),
    graphs(),
    st.randoms(use_true_random=False),
    st.dictionaries(st.sampled_from(["cpu", "gpu", "tpu"]), st.floats(0.01, 500.0), min_size=1),
    st.sets(st.sampled_from(NAMES)),
)
@settings(max_examples=60, deadline=None)
def test_a_selection_is_a_deterministic_partition_in_its_budget(
    past, known, graph, random, budget, missing
) -> None:
    def made(config: Config, known: list[Outcome]) -> str:
        selection = select(
            History(past, tuple(known), {NAMES[0]: 2.0}),
            config,  # type: ignore[arg-type]
            past[-1],
            graph,
            None,
            budget=budget,
            seed=0,
            now=MOMENT,
            base="b",
            head="h",
            unavailable=dict.fromkeys(missing, "absent"),
        )
        assert sorted(c.scenario for c in (*selection.selected, *selection.rest)) == sorted(NAMES)
        assert all(0 <= c.probability <= 1 and c.reasons for c in (*selection.selected, *selection.rest))
        assert not missing & {c.scenario for c in selection.selected}
        for resource, seconds in budget.items():
            assert sum(c.cost.get(resource, 0.0) for c in selection.selected) <= seconds + 1e-9
        return to_json(selection)

    first = made(Config(), known)
    shuffled, order = list(known), list(SCENARIOS)
    random.shuffle(shuffled)
    random.shuffle(order)
    assert first == made(replace(Config(), scenarios=tuple(order)), shuffled)


@st.composite
def problems(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, list[str]]:
    count = draw(st.integers(1, 9))
    chance = np.array(draw(st.lists(st.floats(0.0, 1.0), min_size=count, max_size=count)))
    cost = np.array(draw(st.lists(st.floats(0.1, 20.0), min_size=count, max_size=count)))
    resources = draw(st.lists(st.sampled_from(["cpu", "gpu"]), min_size=count, max_size=count))
    if draw(st.booleans()):
        return chance, cost, None, resources
    causes = draw(st.integers(0, 4))
    near = draw(st.lists(st.floats(0.0, 1.0), min_size=count * causes, max_size=count * causes))
    return chance, cost, np.array(near).reshape(count, causes), resources


@given(problems(), st.floats(0.0, 60.0), st.floats(0.0, 60.0), st.floats(0.1, 60.0))
@settings(max_examples=400, deadline=None)
def test_a_bigger_budget_never_catches_less_and_none_is_overrun(problem, budget, more, other) -> None:
    chance, cost, evidence, resources = problem
    value = value_of(chance, evidence)
    small = schedule(value, cost, resources, {"cpu": budget, "gpu": other})
    large = schedule(value, cost, resources, {"cpu": budget + more, "gpu": other})
    assert large.value >= small.value * (1 - 1e-9) - 1e-12
    assert len(set(small.chosen)) == len(small.chosen)
    for name, limit in (("cpu", budget), ("gpu", other)):
        assert sum(cost[at] for at in small.chosen if resources[at] == name) <= limit + 1e-9


@settings(max_examples=40, deadline=None)
@given(
    changes(count=9),
    st.lists(outcomes(st.integers(1, 9), st.floats(1000.0, 9500.0)), max_size=25),
    graphs(),
    st.floats(1000.0, 9500.0),
)
def test_what_travels_gives_the_same_rows(
    made: tuple[Change, ...], known: list[Outcome], graph: ScenarioGraph, moment: float
) -> None:
    """Learned up to a moment, written, read and asked later: what a state that stayed at home answers."""
    at_home = State(History(made, tuple(o for o in known if o.known_at < moment)), SCENARIOS)
    at_home.advance(moment)
    parts = to_parts(at_home.learned())
    away = State(History(), SCENARIOS, from_parts(*parts.values(), where="x"))
    for change in made:
        np.testing.assert_array_equal(
            at_home.rows(change, graph, 1e9), away.rows(change, graph, 1e9), strict=True
        )
        for scenario in range(len(SCENARIOS)):
            for path in PATHS:
                assert at_home.counts(path, scenario) == away.counts(path, scenario)

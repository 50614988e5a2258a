"""No launch that is watched later changes the graph of an earlier moment, and the store says what it was given."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tithe.data.graph import ScenarioGraph
from tithe.data.observed import LAUNCHES, Observed
from tithe.data.records import Observation, ScenarioName, Sha
from tithe.data.store import Store

SCENARIOS = tuple(ScenarioName(name) for name in "abc")
FILES = ("conf.toml", "one.py", "two.py")
PATHS = st.sampled_from([*FILES, "new.py", "other.txt"])


@st.composite
def observations(draw: st.DrawFn) -> Observation:
    flags = draw(st.dictionaries(PATHS, st.booleans()))
    return Observation(
        draw(st.sampled_from([*SCENARIOS, ScenarioName("gone")])),
        Sha(draw(st.sampled_from("12")) * 40),
        draw(st.sampled_from([1.0, 2.0, 2.5, 3.0, 7.0])),
        tuple(sorted(path for path, flag in flags.items() if flag)),
        tuple(sorted(path for path, flag in flags.items() if not flag)),
    )


MANY = st.lists(observations(), max_size=12, unique=True)
GRAPH = ScenarioGraph(
    SCENARIOS,
    FILES,
    np.array([[1, 2, np.inf]] * 3, dtype=np.float32),
    np.array([[0.8, 0.3, 0.0]] * 3, dtype=np.float32),
)


def same(one: ScenarioGraph, other: ScenarioGraph) -> None:
    assert one.files == other.files
    np.testing.assert_array_equal(one.proximity, other.proximity)
    np.testing.assert_array_equal(one.distance, other.distance)


@given(known=MANY, later=MANY, t=st.floats(0, 8))
def test_what_is_seen_later_changes_no_earlier_graph(
    known: list[Observation], later: list[Observation], t: float
) -> None:
    future = [seen for seen in later if seen.known_at >= t]
    same(Observed(known).overlay(GRAPH, t), Observed([*known, *future]).overlay(GRAPH, t))


@given(known=MANY, t=st.floats(0, 8))
def test_distances_and_proximities_stay_what_they_are(known: list[Observation], t: float) -> None:
    found = Observed(known).overlay(GRAPH, t)
    assert ((found.proximity >= 0) & (found.proximity <= 1)).all()
    np.testing.assert_array_equal(np.isinf(found.distance), found.proximity == 0)


@given(known=MANY, order=st.randoms(use_true_random=False))
@settings(max_examples=30, deadline=None)
def test_the_order_of_arrival_does_not_matter_and_the_newest_are_enough_for_today(
    known: list[Observation], order: object
) -> None:
    mixed = list(known)
    order.shuffle(mixed)  # type: ignore[attr-defined]
    with tempfile.TemporaryDirectory() as folder:
        graphs = []
        for name, given_order in (("one.db", known), ("two.db", mixed)):
            with Store.open(Path(folder) / name) as store:
                store.add_observations(given_order)
                graphs.append(Observed(*store.observations()).overlay(GRAPH, math.inf))
                graphs.append(Observed(*store.observations(newest=LAUNCHES)).overlay(GRAPH, math.inf))
        for other in graphs[1:]:
            same(graphs[0], other)

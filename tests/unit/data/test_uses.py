"""What functions take, by file and as of a moment: the newest watched launch of each scenario speaks."""

from __future__ import annotations

import numpy as np

from tests.unit.data.test_observed import HEAD, SCENARIOS, graph
from tithe.data.observed import Observed
from tithe.data.records import FunctionUse, Observation, ScenarioName
from tithe.data.uses import MODULE, FileUse


def seen(at: float, *functions: FunctionUse, scenario: ScenarioName = SCENARIOS[0]) -> Observation:
    return Observation(scenario, HEAD, at, ("own.py",), (), functions)


def use(name: str, share: float, path: str = "own.py", calls: int = 3) -> FunctionUse:
    return FunctionUse(path, name, calls, share, share / 2)


def of(observed: Observed, t: float, path: str = "own.py") -> FileUse:
    uses = observed.overlay(graph(), t).uses
    assert uses is not None
    return uses.of(path)


def told(found: FileUse) -> list[tuple[int, str, float]]:
    return sorted(
        (int(row), name, float(share))
        for row, name, share in zip(found.row, found.names, found.share, strict=True)
    )


def test_the_newest_launch_before_the_moment_speaks() -> None:
    observed = Observed([seen(1.0, use("f", 0.5), use("g", 0.1)), seen(3.0, use("f", 0.2))])
    assert observed.overlay(graph(), 1.0).uses is None
    assert told(of(observed, 2.0)) == [(0, "f", 0.5), (0, "g", 0.1)]
    assert told(of(observed, 9.0)) == [(0, "f", 0.2)]  # g was not called any more


def test_a_launch_that_was_watched_for_files_alone_says_nothing_of_functions() -> None:
    observed = Observed([seen(1.0, use("f", 0.5)), seen(2.0), seen(2.0, scenario=SCENARIOS[1])])
    uses = observed.overlay(graph(), 9.0).uses
    assert uses is not None
    assert uses.watched.tolist() == [0]
    assert told(of(observed, 9.0)) == [(0, "f", 0.5)]


def test_two_launches_of_one_moment_are_not_added_up() -> None:
    observed = Observed([seen(1.0, use("f", 0.5)), seen(1.0, use("f", 0.4))])
    assert told(of(observed, 9.0)) == [(0, "f", 0.4)]


def test_symbols_name_functions_methods_and_classes() -> None:
    names = ["f", "C.m", "C.n", "D.C", "<module>", "f2"]
    found = of(Observed([seen(1.0, *(use(name, 0.1) for name in names))]), 2.0)

    def named(*symbols: str) -> set[str]:
        return {name for name, hit in zip(found.names, found.named(symbols), strict=True) if hit}

    assert named("f") == {"f"}
    assert named("m") == {"C.m"}
    assert named("C") == {"C.m", "C.n", "D.C"}
    assert named("absent") == named() == set()
    assert named(MODULE) == {"<module>"}


def test_a_file_of_which_nothing_was_seen() -> None:
    uses = Observed([seen(1.0, use("f", 0.5))]).overlay(graph(), 2.0).uses
    assert uses is not None
    assert len(uses.of("hub.py").names) == 0
    assert np.array_equal(uses.watched, [0])

"""Which words of a command say how many steps there are, and how they are lowered."""

from __future__ import annotations

import shlex

import pytest

from tithe.data.records import Scenario, ScenarioName
from tithe.runner.local import FunctionCount
from tithe.shrinker.fidelity import compare
from tithe.shrinker.reducers import for_first_batch, on_cpu, step_knobs, with_steps


def scenario(command: str, **more: object) -> Scenario:
    return Scenario(ScenarioName("s"), tuple(shlex.split(command)), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("command", "lowered"),
    [
        ("python t.py --steps 100", "python t.py --steps 4"),
        (
            "python t.py --max_iters=600 --eval_iters=20 --log_interval=9",
            "python t.py --max_iters=4 --eval_iters=20 --log_interval=9",
        ),
        ("python a.py --trainer.max_iters=1501", "python a.py --trainer.max_iters=4"),
        (
            "python d.py --num-batches=120 --mini-batch-size=256 --nepochs=1",
            "python d.py --num-batches=4 --mini-batch-size=256 --nepochs=1",
        ),
        ("python z.py -n 100000 --seed 7", "python z.py -n 4 --seed 7"),
        (
            "python -m m overrides.num_steps=220 algorithm.epochs=3",
            "python -m m overrides.num_steps=4 algorithm.epochs=3",
        ),
    ],
)
def test_steps(command: str, lowered: str) -> None:
    start = scenario(command)
    assert with_steps(start, step_knobs(start.command), 4).command == scenario(lowered).command


@pytest.mark.parametrize(
    "command",
    ["python t.py", "python t.py --steps 1", "t --steps", "t --steps=1.5", "t steps 10", "t --seed=9"],
)
def test_no_steps(command: str) -> None:
    assert step_knobs(scenario(command).command) == ()


def test_stops() -> None:
    assert [s.stop for s in for_first_batch(scenario("t"))] == ["first-step", "first-batch"]
    assert [s.stop for s in for_first_batch(scenario("t", stop="first-step"))] == ["first-batch"]
    assert for_first_batch(scenario("t", stop="first-batch")) == []


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("t --device=cuda:0", "t --device=cpu"),
        ("t --device cuda", "t --device cpu"),
        ("t --device=cpu", "t --device=cpu"),
        ("t --name cuda", "t --name cuda"),
    ],
)
def test_cpu(command: str, expected: str) -> None:
    assert on_cpu(scenario(command)).command == scenario(expected).command


def test_recall_before_the_first_batch_names_what_is_lost() -> None:
    full = FunctionCount({"a.py:f": 0.1, "a.py:g": 0.2, "a.py:late": 5.0}, 1.0, "ok", "")
    cheap = FunctionCount({"a.py:f": 3.0, "a.py:more": 0.1}, None, "ok", "")
    before = compare(full, cheap, before_batch=True)
    assert (before.decisive, before.lost) == (0.5, ("a.py:g",))
    assert before.whole == pytest.approx(1 / 3)
    assert compare(full, cheap, before_batch=False).lost == ("a.py:g", "a.py:late")
    assert compare(full, full, before_batch=True).lost == ()

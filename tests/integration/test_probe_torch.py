"""The probe on real torch programs: the marked batch is the one that a print put in by hand would mark.

Each program notes the clock where its first batch of training is ready; the mark must lie between that moment
and the first backward, and after everything that is not training.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tithe.data.records import Stop
from tithe.runner.launch import LaunchPlan, LaunchResult, launch
from tithe.runner.marks import first, first_batch

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

HEAD = """
import sys, time, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
data = TensorDataset(torch.randn(32, 8), torch.randn(32, 1))
model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def hand():
    if not hasattr(hand, "done"):
        hand.done = True
        print("hand", time.monotonic_ns(), flush=True)
def step(x, y):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad(); loss.backward(); optimizer.step()
"""
LOOP = """
for x, y in DataLoader(data, 8, num_workers={workers}):
    hand(); step(x, y)
print("end")
"""
EVALUATION = """
model.eval()
with torch.no_grad():
    for x, y in DataLoader(data, 8): model(x)
model.train()
"""
PROGRAMS = {
    "loader": HEAD + LOOP.format(workers=0),
    "workers": HEAD + LOOP.format(workers=2),
    "evaluation first": HEAD + EVALUATION + LOOP.format(workers=0),
    "evaluation by function": HEAD
    + "torch.set_grad_enabled(False); model(data.tensors[0]); torch.set_grad_enabled(True)\n"
    + LOOP.format(workers=0),
    "dummy forward": HEAD + "model(torch.randn(1, 8)).sum()\n" + LOOP.format(workers=0),
    "plain tensors": HEAD
    + "for i in range(3): hand(); step(torch.randn(4, 8), torch.randn(4, 1))\nprint('end')\n",
    "by hand": """
import time, torch
x, w = torch.randn(64, 8), torch.randn(8, 1, requires_grad=True)
for i in range(3):
    if not i: print("hand", time.monotonic_ns(), flush=True)
    (x @ w).pow(2).mean().backward()
    with torch.no_grad(): w -= 0.01 * w.grad; w.grad = None
print("end")
""",
    "gradients without backward": """
import time, torch
x, w = torch.randn(64, 8), torch.randn(8, 1, requires_grad=True)
for i in range(3):
    if not i: print("hand", time.monotonic_ns(), flush=True)
    gradient, = torch.autograd.grad((x @ w).pow(2).mean(), w)
    with torch.no_grad(): w -= 0.01 * gradient
print("end")
""",
}


def run(tmp_path: Path, program: str, stop: Stop = "none", *, probe: bool = True) -> LaunchResult:
    folder = tmp_path / f"launch-{stop}-{probe}"
    folder.mkdir()
    script = tmp_path / "program.py"
    script.write_text(program)
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "OMP_NUM_THREADS": "1"}
    words = (sys.executable, str(script))
    return launch(LaunchPlan(words, tmp_path, env, 120.0, folder, stop=stop, probe=probe))


def by_hand(result: LaunchResult) -> float:
    line = next(line for line in result.stdout.read_text().splitlines() if line.startswith("hand "))
    return (int(line.split()[1]) - result.start_ns) / 1e9


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_first_batch_is_the_one_that_is_trained_on(tmp_path: Path, name: str) -> None:
    result = run(tmp_path, PROGRAMS[name])
    assert (result.exit_code, result.stderr.read_text()) == (0, "")
    phases = first(result.marks)
    assert "error" not in phases
    batch = first_batch(phases)
    assert batch is not None
    hand = by_hand(result)
    if "loader" in name or name == "workers" or "eval" in name:
        # A mark at the DataLoader would come just before; the forward comes after.
        assert phases["first-batch-out"] <= batch
    assert hand <= batch
    if "first-backward" in phases:
        assert batch <= phases["first-backward"] <= phases["first-step"]


@pytest.mark.parametrize("stop", ["first-batch", "first-step"])
@pytest.mark.parametrize("name", ["loader", "workers", "evaluation first", "by hand"])
def test_stop_ends_it_there_with_code_0_and_nobody_left(tmp_path: Path, name: str, stop: Stop) -> None:
    result = run(tmp_path, PROGRAMS[name], stop)
    assert (result.exit_code, result.stderr.read_text()) == (0, "")
    assert "end" not in result.stdout.read_text().splitlines()
    assert by_hand(result) > 0  # what was printed before is not lost
    phases = first(result.marks)
    assert "stopped" in phases
    assert first_batch(phases) is not None
    assert ("first-step" in phases) == (stop == "first-step")


HOOKS = (
    HEAD
    + LOOP.format(workers=0)
    + """
import torch.nn.modules.module as m, torch.optim.optimizer as o, torch.utils.data.dataloader as d
print(len(m._global_forward_pre_hooks), len(o._global_optimizer_post_hooks))
ours = [f for f in (
        torch.autograd.backward, torch.autograd.grad, torch.compile, d._BaseDataLoaderIter.__next__,
        torch.no_grad.__exit__, torch.set_grad_enabled.__init__) if "_tithe" in f.__code__.co_filename]
print(ours)
"""
)


def test_no_hook_or_patch_is_left_after_the_first_step(tmp_path: Path) -> None:
    assert run(tmp_path, HOOKS).stdout.read_text().splitlines()[-2:] == ["0 0", "[]"]


COMPILED = """
import time
what = {what!r}
if what == "module": call = torch.compile(model, backend="eager")
elif what == "in place": model.compile(backend="eager"); call = model
else: call = model
def train(x, y):
    loss = nn.functional.mse_loss(call(x), y)
    optimizer.zero_grad(); loss.backward(); optimizer.step()
if what == "step": train = torch.compile(train, backend="eager")
else:
    with torch.no_grad(): call(data.tensors[0])
for x, y in DataLoader(data, 8):
    hand(); train(x, y)
from torch._dynamo.utils import counters
print({{name: dict(counters[name]) for name in ("frames", "stats")}}, sum(counters["graph_break"].values()))
"""


@pytest.mark.slow
@pytest.mark.parametrize("what", ["module", "in place", "step"])
def test_what_is_compiled_does_not_change_and_nothing_is_said(tmp_path: Path, what: str) -> None:
    program = HEAD + COMPILED.format(what=what)
    bare, probed = run(tmp_path, program, probe=False), run(tmp_path, program)
    assert probed.exit_code == bare.exit_code == 0
    assert probed.stdout.read_text().splitlines()[-1] == bare.stdout.read_text().splitlines()[-1]
    assert len(probed.stderr.read_text().splitlines()) == len(bare.stderr.read_text().splitlines())
    phases = first(probed.marks)
    assert "error" not in phases
    batch = first_batch(phases)
    assert batch is not None
    assert phases["first-batch-out"] <= batch <= phases["first-backward"]

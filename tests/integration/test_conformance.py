"""Every executor under the checks that all must pass; and the checks themselves, under one that does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tithe.data.config import load
from tithe.data.git import GitRepo
from tithe.data.records import Launch, MetricName, RunId, Sha
from tithe.runner import conformance
from tithe.runner.conformance import Ground
from tithe.runner.executor import BlockSpec, Executor
from tithe.runner.local import LocalExecutor
from tithe.runner.recorded import RecordedExecutor
from tithe.runner.resume import ResumingExecutor

CONFIG = """\
[tithe]
main = "main"
setup = "python -c \\"import pathlib; assert not pathlib.Path('unrunnable').exists()\\""
setup_key = ["unrunnable"]

[[scenario]]
name = "sized"
command = "python job.py"
metrics = [{ name = "size", unit = "things" }]
timeout = "20s"
"""


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Ground:
    from tests.integration.conftest import Workshop

    root = tmp_path_factory.mktemp("conformance") / "repository"
    root.mkdir()
    shop = Workshop(root)
    shop.git("init", "--quiet", "--initial-branch=main")
    shas = [
        Sha(shop.commit(str(n), {"tithe.toml": CONFIG, "job.py": job, **more}))
        for n, (job, more) in enumerate(
            [
                ("print('size=1')\n", {}),
                ("print('size=2')\n", {}),
                ("raise SystemExit('no')\n", {}),
                ("print('size=3')\n", {"unrunnable": "x"}),
            ]
        )
    ]
    config = load(root)
    repo = GitRepo.open(root)
    return Ground(
        lambda: LocalExecutor(config, repo),
        config.scenarios[0],
        MetricName("size"),
        shas[0],
        shas[1],
        shas[2],
        shas[3],
    )


def resuming(ground: Ground) -> Ground:
    """Blocks 0 are on record."""
    inner = ground.make()
    known = [one for head in (ground.head, ground.failing) for one in inner.run_block(ground.spec(head))]
    inner.close()
    return replace(ground, make=lambda: ResumingExecutor(ground.make(), known))


def recorded(ground: Ground) -> Ground:
    inner = ground.make()
    pool: dict[tuple[Sha, Any], list[Launch]] = {}
    for head in (ground.head, ground.failing):
        for one in inner.run_block(BlockSpec(RunId("r"), ground.scenario, ground.base, head, "record", 0, 1)):
            pool.setdefault((one.sha, ground.scenario.name), []).append(one)
    inner.close()
    unrunnable = {Sha(ground.unrunnable): "set-up failed"}
    return replace(ground, make=lambda: RecordedExecutor(pool, seed=3, setup_s=0.5, unrunnable=unrunnable))


@pytest.mark.parametrize("kind", ["local", "resuming", "recorded"])
@pytest.mark.parametrize("check", conformance.CHECKS, ids=lambda check: check.__name__)
def test_executors(ground: Ground, kind: str, check: Callable[[Ground], None]) -> None:
    made = {"local": lambda one: one, "resuming": resuming, "recorded": recorded}[kind](ground)
    check(made)


def fails(check: Callable[[Ground], None], ground: Ground) -> bool:
    try:
        check(ground)
    except AssertionError:
        return True
    return False


class Broken:
    """Does everything that an executor does, and one thing wrong."""

    def __init__(self, inner: Executor, fault: str) -> None:
        self._inner = inner
        self._fault = fault

    @property
    def host(self) -> str:
        return "" if self._fault == "host" else self._inner.host

    def prepare(self, sha: Sha) -> str:
        return "" if self._fault == "prepare" else self._inner.prepare(sha)

    def run_block(self, spec: BlockSpec) -> tuple[Launch, ...]:
        made = self._inner.run_block(spec)
        if self._fault == "order":
            return made[::-1]
        if self._fault == "warm-up" and spec.stage == "warmup":
            return made[:1]
        if self._fault == "arms":
            return tuple(replace(one, values={"size": 1.0}) for one in made)
        if self._fault == "failures":
            return tuple(replace(one, status="ok", note="") for one in made)
        if self._fault == "ids":
            return tuple(replace(one, id=made[0].id) for one in made)
        return made

    def spent(self) -> float:
        return 0.0 if self._fault == "spent" else self._inner.spent()

    def close(self) -> None:
        self._inner.close()


@pytest.mark.parametrize("fault", ["host", "prepare", "order", "warm-up", "arms", "failures", "ids", "spent"])
def test_the_checks_find_what_is_wrong(ground: Ground, fault: str, tmp_path: Path) -> None:
    base = recorded(ground)
    broken = replace(base, make=lambda: Broken(base.make(), fault))
    assert any(fails(check, broken) for check in conformance.CHECKS)
    for check in conformance.CHECKS:
        check(replace(base, make=lambda: Broken(base.make(), "")))

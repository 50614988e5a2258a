"""The demo on disk: the same bits for everybody, and every scenario really trains."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tithe.data.config import load
from tithe.data.errors import UsageError
from tithe.data.git import GitRepo
from tithe.demo.write import write


def _environment(**more: str) -> dict[str, str]:
    return {**os.environ, **more}


def test_same_seed_same_repository_whatever_the_users_configuration(tmp_path: Path) -> None:
    hostile = tmp_path / "gitconfig"
    hostile.write_text(
        "[user]\n\tname = Mallory\n\temail = m@example.org\n[core]\n\tautocrlf = true\n"
        "[commit]\n\tgpgsign = true\n[init]\n\tdefaultBranch = trunk\n",
        encoding="utf-8",
    )
    first = write(tmp_path / "one", seed=3)
    code = (
        "import sys; from pathlib import Path; from tithe.demo.write import write\n"
        "print(write(Path(sys.argv[1]), seed=3).head)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "two")],
        env=_environment(GIT_CONFIG_GLOBAL=str(hostile), HOME=str(tmp_path)),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == first.head
    assert GitRepo.open(first.path).is_dirty() is False
    assert first.bundles == len(list(first.spool.iterdir())) > 0


def test_write_refuses_what_is_not_its_own(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("years of work", encoding="utf-8")
    with pytest.raises(UsageError, match="not empty"):
        write(tmp_path / "full", seed=0, force=True)
    assert (tmp_path / "full" / "thesis.txt").read_text(encoding="utf-8") == "years of work"
    write(tmp_path / "demo", seed=0)
    with pytest.raises(UsageError, match="--force"):
        write(tmp_path / "demo", seed=0)
    assert write(tmp_path / "demo", seed=1, force=True).seed == 1


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("demo") / "repo", seed=5).path


@pytest.mark.parametrize("number", range(16))
def test_every_scenario_is_a_real_launch_that_marks_its_first_batch(
    demo: Path, number: int, tmp_path: Path
) -> None:
    scenario = [s for s in load(demo).scenarios if not s.requires][number]
    marks = tmp_path / "marks"
    done = subprocess.run(
        [sys.executable, *scenario.command[1:]],
        cwd=demo,
        env=_environment(TITHE_MARKS=str(marks), PYTHONPATH=str(demo), **scenario.env),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "first-batch" in marks.read_text(encoding="utf-8")


@pytest.mark.torch
def test_torch_scenarios_are_measured_without_touching_their_code(demo: Path) -> None:
    pytest.importorskip("torch")
    from tithe.data.records import RunId
    from tithe.runner.executor import BlockSpec
    from tithe.runner.local import LocalExecutor

    config, repo = load(demo), GitRepo.open(demo)
    scenario = next(s for s in config.scenarios if "torch" in s.requires)
    with LocalExecutor(config, repo) as executor:
        launches = executor.run_block(
            BlockSpec(RunId("t"), scenario, repo.head(), repo.head(), "warmup", 0, 0)
        )
    assert [launch.status for launch in launches] == ["ok", "ok"], launches
    assert all(launch.values["ttfb"] > 0 for launch in launches)

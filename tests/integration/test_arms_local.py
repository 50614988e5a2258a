"""Arms and the local executor on a real repository: two places, set-up, sharing, and what goes wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from tithe.data.config import Config, load
from tithe.data.errors import ConfigError, SetupError
from tithe.data.git import GitRepo
from tithe.data.records import Launch, Results, RunId, Scenario, Sha
from tithe.runner import arms
from tithe.runner.arms import ArmCache, setup_steps
from tithe.runner.executor import BlockSpec
from tithe.runner.local import LocalExecutor
from tithe.runner.locks import FileLock
from tithe.runner.requirements import missing_modules

CONFIG = """\
[tithe]
main = "main"

[graph]
packages = ["pkg"]

[[scenario]]
name = "value"
command = "python job.py"
metrics = ["wall", "cpu", "rss", { name = "size", unit = "things" }]
gate = ["size"]
timeout = "20s"
"""
JOB = """\
import os, pkg, sys
print(f"size={pkg.SIZE}")
print("HASH", os.environ["PYTHONHASHSEED"], "PLACE", os.getcwd())
"""


class Bench:
    """A repository with three revisions: sizes 1 and 2, and one that does not parse."""

    def __init__(self, repository: object) -> None:
        self.repository = repository
        commit = repository.commit  # type: ignore[attr-defined]
        self.root: Path = repository.root  # type: ignore[attr-defined]
        files = {
            "tithe.toml": CONFIG,
            "job.py": JOB,
            "pkg/__init__.py": "SIZE = 1\n",
            "requirements.txt": "\n",
        }
        self.one = Sha(commit("one", files))
        self.two = Sha(commit("two", {"pkg/__init__.py": "SIZE = 2\n"}))
        self.broken = Sha(commit("broken", {"pkg/__init__.py": "SIZE = (\n"}))
        self.config = load(self.root)
        self.repo = GitRepo.open(self.root)

    def spec(self, head: Sha, *, block: int = 0, scenario: Scenario | None = None) -> BlockSpec:
        return BlockSpec(RunId("r"), scenario or self.config.scenarios[0], self.one, head, "first", block, 5)

    def executor(self, **changes: object) -> LocalExecutor:
        return LocalExecutor(replace(self.config, **changes), self.repo)  # type: ignore[arg-type]


@pytest.fixture
def bench(workshop: Callable[..., object]) -> Bench:
    return Bench(workshop("repository"))


@pytest.fixture
def executor(bench: Bench) -> Iterator[LocalExecutor]:
    with bench.executor() as made:
        yield made


def sizes(launches: tuple[Launch, ...]) -> dict[str, set[float]]:
    return {arm: {x.values["size"] for x in launches if x.arm == arm} for arm in ("base", "head")}


def test_a_block_measures_each_arm_from_its_own_checkout(bench: Bench, executor: LocalExecutor) -> None:
    assert [executor.prepare(sha) for sha in (bench.one, bench.two)] == ["", ""]
    for block in (0, 1):
        launches = executor.run_block(bench.spec(bench.two, block=block))
        assert [x.position for x in launches] == [0, 1, 2, 3]
        assert sizes(launches) == {"base": {1.0}, "head": {2.0}}
        assert {x.place for x in launches if x.arm == "base"} == {"ab"[block]}
        assert all(x.status == "ok" and set(x.values) == {"wall", "cpu", "rss", "size"} for x in launches)
        assert all(0 < x.values["wall"] <= x.seconds for x in launches)
    assert executor.notes == ()
    assert executor.spent() > 0


def test_both_arms_of_a_block_share_the_hash_seed_and_path_length(
    bench: Bench, executor: LocalExecutor
) -> None:
    paths = [
        executor._arms.arm(sha, place).checkout for sha in (bench.one, bench.two) for place in ("a", "b")
    ]
    assert len({len(str(path)) for path in paths}) == 1
    assert len(set(paths)) == 4


def test_one_revision_against_itself_stands_in_two_places(bench: Bench, executor: LocalExecutor) -> None:
    launches = executor.run_block(bench.spec(bench.one))
    assert {(x.arm, x.place) for x in launches} == {("base", "a"), ("head", "b")}


def test_numbers_come_from_the_file_of_a_benchmark_tool(bench: Bench, executor: LocalExecutor) -> None:
    code = (
        "import json, os, pkg, sys\n"
        "if not os.path.exists(sys.argv[1]) and pkg.SIZE == 1:\n"
        "    doc = {'benchmarks': [{'name': 'size', 'stats': {'median': pkg.SIZE + 0.5}}]}\n"
        "    json.dump(doc, open(sys.argv[1], 'w'))\n"
    )
    scenario = bench.config.scenarios[0]
    for results, word in (
        (Results("pytest-benchmark", "out.json"), "out.json"),
        (Results("pytest-benchmark"), "{results}"),
    ):
        one = replace(scenario, command=("python", "-c", code, word), results=results)
        for block in (0, 1):  # a file that the launch before left would be in the way
            made = executor.run_block(bench.spec(bench.two, scenario=one, block=block))
            assert {one.values["size"] for one in made if one.arm == "base"} == {1.5}
            heads = [launch for launch in made if launch.arm == "head"]
            assert {launch.status for launch in heads} == {"unmarked"}
    assert executor.notes == ()


def test_a_results_file_that_is_none_is_told(bench: Bench, executor: LocalExecutor) -> None:
    code = "import sys; open(sys.argv[1], 'w').write('[1]')"
    one = replace(
        bench.config.scenarios[0], command=("python", "-c", code, "{results}"), results=Results("pyperf")
    )
    made = executor.run_block(bench.spec(bench.two, scenario=one))
    assert {launch.status for launch in made} == {"unmarked"}
    assert executor.notes == ("value: results.json is not what pyperf writes",)


def test_a_launch_beyond_its_memory_says_so(bench: Bench, executor: LocalExecutor) -> None:
    if not Path("/proc/self").exists():
        pytest.skip("reads /proc")
    code = "import time; kept = bytearray(99 << 20); kept[::4096] = bytes(len(range(0, 99 << 20, 4096))); time.sleep(9)"
    one = replace(bench.config.scenarios[0], command=("python", "-c", code), memory=50 << 20)
    for launch in executor.run_block(bench.spec(bench.two, scenario=one)):
        assert launch.status == "failed"
        assert "MiB of memory, more than the limit of 50, and was ended" in launch.note


def test_cores_that_are_not_there_are_told(bench: Bench, executor: LocalExecutor) -> None:
    one = replace(bench.config.scenarios[0], cores=4096)
    assert sizes(executor.run_block(bench.spec(bench.two, scenario=one)))["base"] == {1.0}
    assert executor.notes == ("value: this host has no more than 4096 cores, so it is not kept to them",)


def test_a_revision_that_crashes_is_measured_as_failing(bench: Bench, executor: LocalExecutor) -> None:
    assert executor.prepare(bench.broken) == ""
    launches = executor.run_block(bench.spec(bench.broken))
    assert len(launches) == 4
    failed = [x for x in launches if x.arm == "head"]
    assert {(x.status, x.exit_code) for x in failed} == {("failed", 1)}
    assert "SyntaxError" in failed[0].note
    kept = bench.root / ".tithe" / "cache" / "failed" / failed[0].id / "stderr"
    assert "SyntaxError" in kept.read_text()


def test_byte_code_of_both_places_is_there_before_the_first_launch(
    bench: Bench, executor: LocalExecutor
) -> None:
    for place in ("a", "b"):
        checkout = executor._arms.arm(bench.one, place).checkout
        assert list((checkout / "pkg" / "__pycache__").glob("*.pyc"))


def test_what_is_imported_from_elsewhere_is_noted(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "foreign" / "pkg").mkdir(parents=True)
    (tmp_path / "foreign" / "pkg" / "__init__.py").write_text("SIZE = 9\n")
    job = f"import sys; sys.path.insert(0, {str(tmp_path / 'foreign')!r}); import pkg; print('size=1')"
    scenario = replace(bench.config.scenarios[0], command=("python", "-c", job))
    with bench.executor() as executor:
        executor.run_block(bench.spec(bench.two, scenario=scenario))
        assert any("foreign" in note and "not from the checkout" in note for note in executor.notes)


@pytest.mark.parametrize(
    ("command", "status", "words"),
    [
        (("no-such-command",), "failed", "cannot start no-such-command"),
        (("python", "-c", "print('nothing of use')"), "unmarked", "size=NUMBER"),
        (("python", "-c", "print('size=nan')"), "unmarked", "size=NUMBER"),
        (("python", "-c", "import time; time.sleep(60)"), "timeout", "longer than 1 s"),
    ],
)
def test_scenarios_that_do_not_work(
    bench: Bench, executor: LocalExecutor, command: tuple[str, ...], status: str, words: str
) -> None:
    scenario = replace(
        bench.config.scenarios[0], command=command, timeout_s=1.0 if status == "timeout" else 20.0
    )
    spec = replace(bench.spec(bench.two, scenario=scenario), stage="warmup")
    launches = executor.run_block(spec)
    assert [x.status for x in launches] == [status, status]
    assert words in launches[0].note


def test_a_scenario_that_spoils_its_checkout_gets_a_new_one(bench: Bench) -> None:
    code = "import os, shutil; print('size=1'); shutil.rmtree(os.getcwd())"
    destroy = replace(bench.config.scenarios[0], command=("python", "-c", code))
    edit = replace(
        destroy, command=("python", "-c", "print('size=1'); open('pkg/__init__.py', 'w').write('SIZE = 7')")
    )
    for scenario in (destroy, edit):
        with bench.executor() as executor:
            executor.run_block(replace(bench.spec(bench.two, scenario=scenario), stage="warmup"))
        with bench.executor() as executor:
            assert sizes(executor.run_block(bench.spec(bench.two))) == {"base": {1.0}, "head": {2.0}}


def test_what_a_killed_process_left_half_made_is_made_again(bench: Bench) -> None:
    with bench.executor() as executor:
        checkout = executor._arms.arm(bench.one, "a").checkout
    checkout.with_name(f"{checkout.name}.ok").unlink()
    (checkout / "job.py").unlink()
    with bench.executor() as executor:
        assert executor.prepare(bench.one) == ""
        assert (checkout / "job.py").exists()


def test_a_fresh_folder_is_empty_and_goes(bench: Bench, executor: LocalExecutor) -> None:
    code = "import os; print(f'size={len(os.listdir())}'); open('left', 'w')"
    scenario = replace(bench.config.scenarios[0], command=("python", "-c", code), fresh_cwd=True)
    launches = executor.run_block(bench.spec(bench.two, scenario=scenario))
    assert {x.values["size"] for x in launches} == {0.0}


def test_set_up_builds_one_environment_for_equal_content(bench: Bench) -> None:
    steps = "python -c \"import sys; open(sys.prefix + '/made', 'w')\" && python -c pass"
    job = (
        "python",
        "-c",
        "import os, sys; print('size=%d' % os.path.exists(sys.prefix + '/made'))",
    )
    scenario = replace(bench.config.scenarios[0], command=job)
    with bench.executor(setup=steps, setup_key=("requirements*.txt",)) as executor:
        assert [executor.prepare(sha) for sha in (bench.one, bench.two)] == ["", ""]
        assert sizes(executor.run_block(bench.spec(bench.two, scenario=scenario))) == {
            "base": {1.0},
            "head": {1.0},
        }
    environments = bench.root / ".tithe" / "cache" / "arms" / "e"
    assert len([path for path in environments.iterdir() if path.is_dir()]) == 1


@pytest.mark.parametrize(
    ("setup", "timeout_s", "words"),
    [
        ("python -c \"import sys; sys.exit('no wheel for you')\"", 60.0, "failed (exit 1): no wheel for you"),
        ("no-such-tool install", 60.0, "cannot start"),
        ('python -c "import time; time.sleep(60)"', 4.0, "took longer than 4 s"),
    ],
)
def test_a_set_up_that_fails_is_one_line_with_its_log(
    bench: Bench, setup: str, timeout_s: float, words: str
) -> None:
    with bench.executor(setup=setup, setup_key=(), setup_timeout_s=timeout_s) as executor:
        why = executor.prepare(bench.one)
        assert words in why
        assert "\n" not in why
        log = Path(why.rpartition("log: ")[2])
        assert "$ " in log.read_text()
        assert executor.prepare(bench.one) == why
        with pytest.raises(SetupError):
            executor.run_block(bench.spec(bench.two))


def test_setup_steps_never_pass_through_a_shell() -> None:
    assert setup_steps("pip install -r 'a b.txt' && pip install . ; rm") == [
        ("pip", "install", "-r", "a b.txt"),
        ("pip", "install", ".", ";", "rm"),
    ]


def test_an_interpreter_that_is_not_there(bench: Bench) -> None:
    with pytest.raises(ConfigError, match="no interpreter"):
        bench.executor(python="python9.99")


def test_collecting_keeps_what_another_process_uses(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arms, "KEEP_CHECKOUTS", 0)
    folder = bench.root / ".tithe" / "cache" / "arms"
    mine, theirs = (ArmCache(bench.config, bench.repo, folder) for _ in range(2))
    kept, gone = mine.arm(bench.one, "a").checkout, mine.arm(bench.two, "a").checkout
    theirs.arm(bench.one, "a")
    mine.close()
    assert kept.is_dir()
    assert not gone.exists()
    theirs.close()
    assert not kept.exists()
    assert [path.name for path in (folder / "t").iterdir()] == []
    listed = subprocess.run(
        ["git", "worktree", "list"], cwd=bench.root, capture_output=True, text=True, check=True
    )
    assert len(listed.stdout.splitlines()) == 1


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="the load of a host is read from /proc")
def test_a_busy_neighbour_is_named(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tithe.runner.local.NEIGHBOUR_SHARE", 0.01)
    monkeypatch.setattr("tithe.runner.local.WORTH_TELLING_S", 1.0)
    one = replace(
        bench.config.scenarios[0], command=("python", "-c", "import time; time.sleep(0.5); print('size=1')")
    )
    hog = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        with bench.executor() as executor:
            executor.run_block(bench.spec(bench.two, scenario=one))
            (told,) = executor.notes
    finally:
        hog.kill()
        hog.wait()
    assert told.startswith("value: others kept ")
    assert "cores busy while it was measured" in told


@pytest.mark.parametrize("limit", ["age", "size", "number"])
def test_arms_are_collected_by_age_size_and_number(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    folder = bench.root / ".tithe" / "cache" / "arms" / "t"
    with bench.executor() as executor:
        executor.prepare(bench.one)
        executor.prepare(bench.two)
    assert len(list(folder.glob("*.ok"))) == 2
    if limit == "age":
        for marker in folder.glob(f"{bench.one[:20]}*.ok"):
            os.utime(marker, (time.time() - 31 * 86400,) * 2)
    elif limit == "size":
        monkeypatch.setattr("tithe.runner.arms.KEEP_BYTES", 1)
    else:
        monkeypatch.setattr("tithe.runner.arms.KEEP_CHECKOUTS", 1)
    with bench.executor() as executor:
        executor.prepare(bench.two)
    left = [marker.name for marker in folder.glob("*.ok")]
    assert left  # the newest stays, in one place or in both
    assert all(name.startswith(bench.two[:20]) for name in left)
    assert limit == "age" or len(left) == 1
    assert not [path for path in folder.iterdir() if path.name.startswith(bench.one[:20])]


def test_nothing_is_left_of_a_closed_executor(bench: Bench) -> None:
    with bench.executor() as executor:
        executor.run_block(bench.spec(bench.two))
    executor.close()
    assert list((bench.root / ".tithe" / "cache" / "scratch").iterdir()) == []


TWO_AT_ONCE = """
import json, sys
from pathlib import Path
from tithe.data.config import load
from tithe.data.git import GitRepo
from tithe.runner.executor import BlockSpec
from tithe.runner.local import LocalExecutor
root, base, head = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
config = load(root)
with LocalExecutor(config, GitRepo.open(root)) as executor:
    spans = []
    for block in range(2):
        launches = executor.run_block(BlockSpec("r", config.scenarios[0], base, head, "first", block, 1))
        assert all(x.status == "ok" for x in launches), launches
        spans.append((launches[0].started_at, launches[-1].started_at + launches[-1].values["wall"]))
print(json.dumps(spans))
"""


def test_two_processes_share_arms_and_take_turns(bench: Bench) -> None:
    words = [sys.executable, "-c", TWO_AT_ONCE, str(bench.root), bench.one, bench.two]
    both = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [process.communicate(timeout=120)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    spans = sorted(span for output in outputs for span in json.loads(output))
    assert len(spans) == 4
    assert all(before[1] <= after[0] for before, after in pairwise(spans))


def test_locks(tmp_path: Path) -> None:
    one, two = FileLock(tmp_path / "l"), FileLock(tmp_path / "l")
    assert one.acquire(shared=True)
    assert two.acquire(shared=True, wait=False)
    two.release()
    assert not two.acquire(wait=False)
    one.release(remove=True)
    assert two.acquire(wait=False)
    assert not one.acquire(shared=True, wait=False)
    two.release(remove=True)
    assert not (tmp_path / "l").exists()


def test_missing_modules_are_told_by_scenario(bench: Bench) -> None:
    base = bench.config.scenarios[0]
    there = replace(base, requires=("json", "pkg"))
    absent = replace(base, name="other", requires=("json", "no_such_module_x", "no_such.y"))  # type: ignore[arg-type]
    config: Config = replace(bench.config, scenarios=(there, absent))
    (bench.root / "pkg" / "__init__.py").write_text("SIZE = 1\n")
    assert missing_modules(config.scenarios, config) == {
        "other": "not installed: no_such_module_x, no_such.y"
    }

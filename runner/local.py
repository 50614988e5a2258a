"""Carries out blocks on this host, one process at a time.

It holds a slot that all tithe processes of a user on this host share while it measures, block by block: two
runs at once take turns and do not become each other's noise. Whatever a launch leaves behind (output, marks)
lies in a scratch folder that goes with the executor; what a failing one printed is kept for a while.
"""

from __future__ import annotations

import os
import platform
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from tithe.data import formats
from tithe.data.config import RESULTS_WORD, Config
from tithe.data.errors import LaunchError, SetupError
from tithe.data.git import GitRepo
from tithe.data.paths import cache_dir
from tithe.data.records import (
    BUILTIN_METRICS,
    ArmName,
    Launch,
    LaunchStatus,
    Place,
    Scenario,
    Sha,
    Variant,
)
from tithe.data.text import safe_line
from tithe.runner import metrics, supervisor
from tithe.runner.arms import (
    PLAIN,
    Arm,
    ArmCache,
    interpreter_of,
    interpreter_version,
    last_line,
    newest_first,
)
from tithe.runner.environment import launch_environment, resolve_command
from tithe.runner.executor import BlockSpec
from tithe.runner.files import read_regular
from tithe.runner.launch import LaunchPlan, LaunchResult, launch
from tithe.runner.locks import FileLock, host_slot
from tithe.runner.marks import Times, first, first_batch, read_files, read_functions, read_times

NEIGHBOUR_SHARE = 0.25
"""Part of the host's cores that others keep busy before it is worth a word."""
WORTH_TELLING_S = 5.0
"""Seconds of launches of a scenario below which nothing is said of neighbours: clocks tick coarsely."""
KEEP_FAILED = 20
"""Output of that many failed launches is kept under `.tithe/cache/failed`."""


@dataclass(frozen=True)
class FunctionCount:
    """What a counted launch ran: `file:qualified.name` of the checkout to seconds until it first ran."""

    functions: Mapping[str, float]
    first_batch_s: float | None
    status: LaunchStatus
    note: str


@dataclass(frozen=True)
class FilesSeen:
    """What an observed launch loaded or opened: paths as it says them, relative to the checkout.

    They are the word of the launch. `python`: whether a Python process was seen, without which none can be.
    `functions` are by path and qualified name; `seconds` is what its longest process took.
    """

    paths: frozenset[str]
    functions: Mapping[tuple[str, str], Times]
    seconds: float
    python: bool
    status: LaunchStatus
    note: str


class LocalExecutor:
    """The executor of one host; a context manager.

    `notes` collects what a report should warn of: packages that were not imported from the checkout, files
    that a partial clone lacks, output that was cut. `variants` are what the arms have beside their revisions.
    """

    def __init__(
        self, config: Config, repo: GitRepo, variants: Mapping[ArmName, Variant] | None = None
    ) -> None:
        supervisor.hide_from_others()
        self._config = config
        self._variants = dict(variants or {})
        for variant in self._variants.values():
            if variant.python:
                interpreter_version(interpreter_of(variant.python))
        self._cache = cache_dir(config.root)
        self._arms = ArmCache(config, repo, self._cache / "arms")
        self._version = interpreter_version(interpreter_of(config.python))
        self._scratch, self._scratch_lock = _scratch(self._cache / "scratch")
        self._count = 0
        self._spent = 0.0
        self._prepared: set[Sha] = set()
        self._notes: dict[str, None] = {}
        self._others: dict[str, tuple[float, float]] = {}
        """Processor seconds of others, and seconds, by scenario."""
        self._queued_s = queued_seconds(os.environ, time.time())

    def __enter__(self) -> LocalExecutor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def host(self) -> str:
        return f"{host_name()} {self._version}"

    @property
    def notes(self) -> tuple[str, ...]:
        return (*self._notes, *self._neighbours())

    def _neighbours(self) -> list[str]:
        """Scenarios that were not alone on this host while they were measured."""
        cores = os.cpu_count() or 1
        return [
            f"{scenario}: others kept {busy / seconds:.1f} of the {cores} cores busy while it was measured: "
            "a quieter host needs fewer launches"
            for scenario, (busy, seconds) in self._others.items()
            if seconds >= WORTH_TELLING_S and busy / seconds > NEIGHBOUR_SHARE * cores
        ]

    def prepare(self, sha: Sha) -> str:
        """See `Executor`. The first revision is made in the place of a base, later ones in that of a head."""
        begun = time.monotonic()
        try:
            first = not self._prepared if self._variants else self._prepared <= {sha}
            self._arm(sha, "base" if first else "head", 0)
        except SetupError as error:
            return safe_line(str(error), limit=400)
        finally:
            self._spent += time.monotonic() - begun
        self._prepared.add(sha)
        return ""

    def run_block(self, spec: BlockSpec) -> tuple[Launch, ...]:
        """See `Executor`."""
        begun = time.monotonic()
        arms: dict[ArmName, Arm] = {
            name: self._arms.arm(spec.sha(name), spec.place(name), self._variants.get(name, PLAIN))
            for name in ("base", "head")
        }
        for arm in arms.values():
            self._note_missing(arm)
        self._spent += time.monotonic() - begun
        with host_slot():
            return tuple(
                self._launch(spec, name, arms[name], position) for position, name in enumerate(spec.order())
            )

    def spent(self) -> float:
        return self._spent

    def close(self) -> None:
        self._arms.close()
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._scratch_lock.release(remove=self._scratch_lock.held)

    def _arm(self, sha: Sha, name: ArmName, block: int) -> Arm:
        place: Place = "a" if (name == "base") == (block % 2 == 0) else "b"
        return self._arms.arm(sha, place, self._variants.get(name, PLAIN))

    def record(self, spec: BlockSpec, count: int) -> tuple[Launch, ...]:
        """Untouched launches of one revision (the spec's head), outside any comparison.

        Raises:
            SetupError, LaunchError: as for `run_block`.
        """
        arm = self._arm(spec.head, "base", 0)
        with host_slot():
            return tuple(self._launch(spec, "head", arm, position) for position in range(count))

    def count_functions(self, scenario: Scenario, sha: Sha) -> FunctionCount:
        """One launch that notes which of the checkout's functions run; slower than an untouched one.

        Its time-out is four times the scenario's.

        Raises:
            SetupError, LaunchError: as for `run_block`.
        """
        arm = self._arm(sha, "base", 0)
        patient = replace(scenario, timeout_s=4 * scenario.timeout_s)
        with host_slot():
            folder, result = self._start(patient, arm, hash_seed=1, watch="functions")
        values, phases = measured(patient, result)
        status, note = judge(patient, result, values, arm.checkout)
        functions = read_functions(folder / "functions", result.start_ns)
        shutil.rmtree(folder, ignore_errors=True)
        return FunctionCount(functions, first_batch(phases), status, note)

    def observe(self, scenario: Scenario, sha: Sha) -> FilesSeen:
        """One launch that notes which files of the checkout it uses, and what its functions take.

        It is slower than an untouched one; its time-out is four times the scenario's. A program that cannot be
        watched so closely is launched again for its files alone.

        Raises:
            SetupError, LaunchError: as for `run_block`.
        """
        seen = self._observe(scenario, sha, "times")
        return seen if seen.status in ("ok", "unmarked") else self._observe(scenario, sha, "files")

    def _observe(self, scenario: Scenario, sha: Sha, watch: Literal["files", "times"]) -> FilesSeen:
        arm = self._arm(sha, "base", 0)
        patient = replace(scenario, timeout_s=4 * scenario.timeout_s)
        with host_slot():
            folder, result = self._start(patient, arm, hash_seed=1, watch=watch)
        values, _ = measured(patient, result)
        status, note = judge(patient, result, values, arm.checkout)
        paths = read_files(folder / "files")
        functions, seconds = read_times(folder / "times")
        shutil.rmtree(folder, ignore_errors=True)
        python = any(mark.name == "interpreter" for mark in result.marks)
        return FilesSeen(paths, functions, seconds, python, status, note)

    def _start(
        self,
        scenario: Scenario,
        arm: Arm,
        *,
        hash_seed: int,
        watch: Literal["", "functions", "files", "times"] = "",
        name: ArmName = "base",
    ) -> tuple[Path, LaunchResult]:
        """One launch in a folder of its own, which is left to the caller."""
        self._count += 1
        folder = self._scratch / f"{self._count:08d}"
        cwd = arm.checkout / scenario.cwd
        try:
            folder.mkdir(parents=True)  # a job may have removed what it lies in
            if scenario.fresh_cwd:
                cwd = folder / "cwd"
                cwd.mkdir()
            if scenario.results is not None and scenario.results.file:
                old = cwd / scenario.results.file  # what the launch before this one wrote
                if old.is_symlink() or not old.is_dir():
                    old.unlink(missing_ok=True)
        except OSError as error:
            raise LaunchError(f"cannot be made: {error.strerror}", where=safe_line(str(folder))) from None
        variant = self._variants.get(name, PLAIN)
        env = launch_environment(
            scenario,
            checkout=arm.checkout,
            interpreter=arm.interpreter,
            pythonpath=self._config.pythonpath_in(arm.checkout),
            extra=self._config.env_allow,
            hash_seed=hash_seed,
            compile_cache=self._scratch / "compiled",
        )
        env.update(variant.env)
        command = (*scenario.command, *variant.args)
        if scenario.results is not None and not scenario.results.file:
            command = tuple(word.replace(RESULTS_WORD, str(folder / RESULTS)) for word in command)
        files = {"TITHE_FILES": str(folder / "files"), "TITHE_FILES_ROOT": str(arm.checkout)}
        watching = {
            "": {},
            "functions": {"TITHE_COVER": str(folder / "functions"), "TITHE_COVER_ROOT": str(arm.checkout)},
            "files": files,
            "times": {**files, "TITHE_TIMES": str(folder / "times")},
        }
        result = launch(
            LaunchPlan(
                argv=resolve_command(command, arm.interpreter),
                cwd=cwd,
                env=env,
                timeout_s=scenario.timeout_s,
                folder=folder,
                stop=scenario.stop,
                packages=self._config.packages_in(arm.checkout),
                extra_env=watching[watch],
                memory=scenario.memory,
                cores=self._cores(scenario),
                instructions=any(metric.name == "instructions" for metric in scenario.metrics),
            )
        )
        if scenario.results is not None:
            result = self._with_results(scenario, result, cwd, folder)
        if result.uncounted:
            self._notes[
                f"{scenario.name}: instructions are not counted on this host ({result.uncounted})"
            ] = None
        self._spent += result.seconds
        busy, seconds = self._others.get(scenario.name, (0.0, 0.0))
        self._others[scenario.name] = busy + result.others_s, seconds + result.seconds
        self._note_origins(result, arm, scenario)
        return folder, result

    def _cores(self, scenario: Scenario) -> tuple[int, ...]:
        """The last ones of this host, which interrupts and other programs like least."""
        if not scenario.cores:
            return ()
        try:
            own = sorted(os.sched_getaffinity(0))
        except AttributeError:  # macOS
            own = []
        if len(own) > scenario.cores:
            return tuple(own[-scenario.cores :])
        self._notes[
            f"{scenario.name}: this host has no more than {scenario.cores} cores, so it is not kept to them"
        ] = None
        return ()

    def _with_results(
        self, scenario: Scenario, result: LaunchResult, cwd: Path, folder: Path
    ) -> LaunchResult:
        """The result with the numbers of the scenario's benchmark tool added to the file of metrics."""
        assert scenario.results is not None  # noqa: S101 - the caller looked
        path = cwd / scenario.results.file if scenario.results.file else folder / RESULTS
        content = read_regular(path, RESULTS_LIMIT)
        try:
            found = formats.read(scenario.results.format, content) if content else {}
        except ValueError as error:
            self._notes[f"{scenario.name}: {safe_line(path.name)} {error}"] = None
            return result
        return replace(result, results=found)

    def _launch(self, spec: BlockSpec, name: ArmName, arm: Arm, position: int) -> Launch:
        scenario = spec.scenario
        folder, result = self._start(scenario, arm, hash_seed=spec.hash_seed(), name=name)
        values, phases = measured(scenario, result, self._queued_s)
        status, note = judge(scenario, result, values, arm.checkout)
        record = Launch(
            id=spec.launch_id(position),
            run=spec.run,
            scenario=scenario.name,
            arm=name,
            sha=spec.sha(name),
            stage=spec.stage,
            block=spec.block,
            position=position,
            place=arm.place,
            started_at=result.started_at,
            seconds=result.seconds,
            status=status,
            exit_code=result.exit_code,
            values=values,
            phases=phases,
            note=note,
        )
        self._tidy(folder, record)
        return record

    def _tidy(self, folder: Path, record: Launch) -> None:
        shutil.rmtree(folder / "cwd", ignore_errors=True)
        if record.status in ("failed", "timeout"):
            kept = self._cache / "failed"
            kept.mkdir(exist_ok=True)
            target = kept / record.id
            shutil.rmtree(target, ignore_errors=True)
            shutil.move(folder, target)
            for path in newest_first(kept.iterdir())[KEEP_FAILED:]:
                shutil.rmtree(path, ignore_errors=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)

    def _note_missing(self, arm: Arm) -> None:
        if missing := self._arms.missing(arm):
            self._notes[
                f"{arm.sha[:12]}: {len(missing)} files are not in this partial clone, such as "
                f"{safe_line(missing[0], limit=80)}"
            ] = None

    def _note_origins(self, result: LaunchResult, arm: Arm, scenario: Scenario) -> None:
        for origin in result.origins:
            if origin.file and not Path(os.path.realpath(origin.file)).is_relative_to(arm.checkout.resolve()):
                self._notes[
                    f"{scenario.name}: {safe_line(origin.package)} was imported from "
                    f"{safe_line(origin.file)}, not from the checkout: both arms may run the same code"
                ] = None
        if any(result.cut):
            self._notes[f"{scenario.name}: its output is long and was cut in the middle"] = None


def measured(
    scenario: Scenario, result: LaunchResult, queued_s: float = 0.0
) -> tuple[dict[str, float], dict[str, float]]:
    """The values of the scenario's metrics that this launch has, and its phases.

    `queued_s`: from the submit time to the launch; all phases, and ttfb with them, count from the submit.
    """
    phases = {name: queued_s + seconds for name, seconds in first(result.marks).items()}
    if queued_s:
        phases = {"queued": queued_s, **phases}
    wanted = {str(metric.name) for metric in scenario.metrics}
    found = {"wall": result.wall_s, "cpu": result.cpu_s, "rss": float(result.rss_bytes)}
    if (batch := first_batch(phases)) is not None:
        found["ttfb"] = batch
    if result.instructions is not None:
        found["instructions"] = float(result.instructions)
    own = wanted - BUILTIN_METRICS.keys()
    found |= {name: value for name, value in result.results.items() if name in own}
    found |= metrics.read(result.stdout, result.metrics, own)
    return {name: found[name] for name in sorted(wanted & found.keys())}, phases


RESULTS = "results.json"
"""What a benchmark tool writes, in the folder of its launch."""
RESULTS_LIMIT = 64 << 20
OUTPUT_LIMIT = 16 << 20
"""Bytes of an output that are looked at for why a launch failed: more than `launch` keeps of one."""


def judge(
    scenario: Scenario, result: LaunchResult, values: Mapping[str, float], checkout: Path
) -> tuple[LaunchStatus, str]:
    """Whether the launch counts, and why not, in one line that is safe to print.

    Files of the checkout are named as in the repository: where an arm stands tells nobody anything, differs
    between the places of one arm, and may be long.
    """
    if result.problem:
        return (
            "failed",
            f"cannot start {safe_line(scenario.command[0], limit=80)}: {safe_line(result.problem)}",
        )
    if result.too_large:
        return "failed", (
            f"took {result.too_large / 2**20:.0f} MiB of memory, more than the limit of "
            f"{scenario.memory / 2**20:.0f}, and was ended with all its processes"
        )
    if result.timed_out:
        return "timeout", f"took longer than {scenario.timeout_s:g} s and was ended with all its processes"
    if result.exit_code != 0:
        said = _said(result, checkout)
        return "failed", safe_line(
            f"exit code {result.exit_code}: {said}" if said else f"exit code {result.exit_code}"
        )
    for name in scenario.gate:
        if name in values:
            continue
        if name == "instructions":
            return "unmarked", f"instructions are not counted on this host ({result.uncounted})"
        if name == "ttfb":
            return (
                "unmarked",
                "no first batch was seen; a call of tithe.first_batch() where it is reached marks it",
            )
        return (
            "unmarked",
            f"it did not report {name}: print {name}=NUMBER, or write it to the file in TITHE_METRICS",
        )
    return "ok", ""


def _said(result: LaunchResult, checkout: Path) -> str:
    for path in (result.stderr, result.stdout):
        output = read_regular(path, OUTPUT_LIMIT)
        if output.strip():
            return last_line(output.replace(f"{checkout}{os.sep}".encode(), b""))
    return ""


def queued_seconds(environment: Mapping[str, str], now: float) -> float:
    """How long this job waited before tithe began, if TITHE_SUBMITTED (unix time) says so."""
    try:
        waited = now - float(environment.get("TITHE_SUBMITTED", ""))
    except ValueError:
        return 0.0
    return waited if 0 < waited < 30 * 86400 else 0.0


def host_name() -> str:
    """Node, processor and number of processors; what timings may be pooled within."""
    model = ""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    except OSError:
        model = platform.processor()
    return safe_line(f"{platform.node()} {model or platform.machine()} x{os.cpu_count()}")


def _scratch(folder: Path) -> tuple[Path, FileLock]:
    """A folder of this process's own, with a path of fixed length; removes those of dead processes."""
    folder.mkdir(exist_ok=True)
    for old in sorted(folder.glob("*.lock")):
        lock = FileLock(old)
        if lock.acquire(wait=False):
            shutil.rmtree(old.with_suffix(""), ignore_errors=True)
            lock.release(remove=True)
    for _ in range(100):
        path = folder / os.urandom(4).hex()
        lock = FileLock(path.with_suffix(".lock"))
        if lock.acquire(wait=False):
            path.mkdir()
            return path, lock
    raise LaunchError("no scratch folder can be made", where=str(folder))

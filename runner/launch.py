"""One process start, measured: the sampling unit.

What is measured, and how. *wall*: from just before the job executes to the end of its main process. *cpu*:
user and system time of everything that the job started, by `wait4` of the supervisor that adopts all orphans.
*rss*: the largest single process of them (not their sum). *instructions*: retired in user space by all of them, by
perf, where the host has such counters and lets them be used. Marks share the clock (CLOCK_MONOTONIC) and are
seconds since the job executed.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tithe.data.codec import from_json
from tithe.data.errors import LaunchError
from tithe.data.records import Stop
from tithe.data.text import safe_line
from tithe.runner import supervisor
from tithe.runner.marks import Mark, Origin, read_marks

SUPERVISOR = Path(__file__).with_name("supervisor.py")
PROBE = Path(__file__).with_name("probe")
OUTPUT_CAP = 4 << 20
"""Bytes kept of each of stdout and stderr: the first three quarters and the last one."""
GIVE_UP_S = 15.0
"""How long a supervisor that was told to stop may take to kill its job."""
_SUPERVISOR_S = 0.05
"""Processor seconds that watching a launch takes, about."""
SLACK_S = 60.0
"""What the supervisor may take beyond the job's time-out before it is itself given up."""


@dataclass(frozen=True)
class LaunchPlan:
    """What to start, where, and how long it may take.

    `env` is the whole environment; `launch` adds TITHE_* to it and puts the probe first on PYTHONPATH.
    `folder` is an empty folder for output and marks: keep the length of its path the same for all launches
    that are compared, since the environment's size moves the stack. `packages` are import names whose
    origins the probe reports.
    """

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    timeout_s: float
    folder: Path
    stop: Stop = "none"
    packages: tuple[str, ...] = ()
    probe: bool = True
    cap: int = OUTPUT_CAP
    extra_env: Mapping[str, str] = field(default_factory=dict)
    """Variables for the probe, set last."""
    memory: int = 0
    """Resident bytes of all its processes together, beyond which it is ended; 0 for no limit."""
    cores: tuple[int, ...] = ()
    """Processors that it may run on; empty for all."""
    instructions: bool = False
    """Count them, where the host allows that."""


@dataclass(frozen=True)
class LaunchResult:
    """How it went. `exit_code` is as a shell says it (128 + signal), None if it never started."""

    exit_code: int | None
    timed_out: bool
    started_at: float
    seconds: float
    """Start-up of the supervisor and ending of leftovers included."""
    start_ns: int = 0
    """When it executed, on the monotonic clock."""
    wall_s: float = 0.0
    cpu_s: float = 0.0
    rss_bytes: int = 0
    marks: tuple[Mark, ...] = ()
    origins: tuple[Origin, ...] = ()
    stdout: Path = Path(os.devnull)
    stderr: Path = Path(os.devnull)
    metrics: Path = Path(os.devnull)
    cut: tuple[int, int] = (0, 0)
    """Bytes dropped from stdout and stderr."""
    killed: int = 0
    """Processes that outlived the main process or the time-out, and were ended."""
    problem: str = ""
    """Why it never started."""
    too_large: int = 0
    """Bytes that it had taken when it was ended for its memory limit; else 0."""
    instructions: int | None = None
    """Retired in user space by all that it started; None where they were not counted."""
    uncounted: str = ""
    """Why they could not be."""
    others_s: float = 0.0
    """Processor seconds of everything else on the host, meanwhile."""
    results: Mapping[str, float] = field(default_factory=dict)
    """Numbers of the benchmark tool that ran in it, by name."""


def launch(plan: LaunchPlan) -> LaunchResult:
    """Run a job to its end, or to the end of its time-out, and let nothing of it survive.

    Ctrl-C, and any other exception in here, ends the job too.

    Raises:
        LaunchError: the supervisor could not be started or died.
    """
    folder = plan.folder
    marks = folder / "marks"
    env = {**plan.env, "TITHE_MARKS": str(marks), "TITHE_METRICS": str(folder / "metrics")}
    env["TITHE_STOP"] = plan.stop
    # By this the processes of a launch are found when nothing else leads to them: no two launches of a host share it.
    name = f"{folder.name}-{secrets.token_hex(8)}"
    env["TITHE_LAUNCH"] = name
    if plan.probe:
        env["PYTHONPATH"] = os.pathsep.join([str(PROBE), *filter(None, [env.get("PYTHONPATH")])])
        env["TITHE_PACKAGES"] = ",".join(plan.packages)
    env.update(plan.extra_env)
    document = {
        "argv": plan.argv,
        "cwd": str(plan.cwd),
        "env": env,
        "timeout_s": plan.timeout_s,
        "stdout": str(folder / "stdout"),
        "stderr": str(folder / "stderr"),
        "cap": plan.cap,
        "memory": plan.memory,
        "cores": plan.cores,
        "instructions": plan.instructions,
        "token": f"TITHE_LAUNCH={name}",
    }
    begun = time.monotonic()
    started_at = time.time()
    busy = _busy_seconds()
    answer = _supervise(
        json.dumps(document).encode() + b"\n", plan.timeout_s + SLACK_S, f"TITHE_LAUNCH={name}"
    )
    seconds = time.monotonic() - begun
    busy = _busy_seconds() - busy
    if answer.error:
        return LaunchResult(None, False, started_at, seconds, problem=answer.error)
    found, origins = read_marks(marks, answer.start_ns)
    return LaunchResult(
        exit_code=answer.exit_code,
        timed_out=answer.timed_out,
        started_at=answer.start_unix,
        seconds=seconds,
        start_ns=answer.start_ns,
        wall_s=(answer.end_ns - answer.start_ns) / 1e9,
        cpu_s=answer.cpu_s,
        rss_bytes=answer.rss_bytes,
        marks=found,
        origins=origins,
        stdout=folder / "stdout",
        stderr=folder / "stderr",
        metrics=folder / "metrics",
        cut=(answer.stdout_cut, answer.stderr_cut),
        killed=answer.killed,
        too_large=answer.too_large,
        instructions=answer.instructions,
        uncounted=answer.uncounted,
        others_s=max(0.0, busy - answer.cpu_s - _SUPERVISOR_S),
    )


@dataclass(frozen=True)
class _Answer:
    """What the supervisor prints; see its `main`."""

    error: str
    start_ns: int = 0
    start_unix: float = 0.0
    end_ns: int = 0
    exit_code: int | None = None
    timed_out: bool = False
    too_large: int = 0
    instructions: int | None = None
    uncounted: str = ""
    cpu_s: float = 0.0
    rss_bytes: int = 0
    processes: int = 0
    killed: int = 0
    left: int = 0
    stdout_cut: int = 0
    stderr_cut: int = 0


def _supervise(plan: bytes, limit_s: float, token: str) -> _Answer:
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(SUPERVISOR)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"PATH": os.defpath},
            start_new_session=True,
        )
    except OSError as error:
        raise LaunchError(
            f"the supervisor cannot be started: {error.strerror}", where=sys.executable
        ) from None
    with process:
        stdin, stdout, stderr = process.stdin, process.stdout, process.stderr
        if stdin is None or stdout is None or stderr is None:
            raise LaunchError("the supervisor has no pipes")
        try:
            stdin.write(plan)
            stdin.flush()
            ready, _, _ = select.select([stdout], [], [], limit_s)
            raw = stdout.read() if ready else b""
        except BrokenPipeError:
            raw = b""
        except BaseException:
            # It sees the end of its standard input, kills the job, and goes.
            stdin.close()
            _gone(process)
            raise
        if not raw:
            process.kill()
            why = stderr.read().decode(errors="replace").strip().splitlines()
            code = process.wait()
            end_all(token)
            said = f"the supervisor gave no answer within {limit_s:.0f} s"
            if ready:
                said = (
                    f"the supervisor was killed (signal {-code})"
                    if code < 0
                    else "the supervisor ended early"
                )
            raise LaunchError(
                safe_line(why[-1]) if why else said,
                where=str(SUPERVISOR),
                mend="a job that kills what watches it cannot be measured",
            )
    return from_json(raw, _Answer, where=str(SUPERVISOR))


def _busy_seconds() -> float:
    """Processor seconds that this host has worked, for anybody (Linux; elsewhere 0)."""
    try:
        with open("/proc/stat", encoding="ascii") as file:  # noqa: PTH123 - twice a launch
            user, nice, system, _, _, irq, softirq, stolen = map(int, file.readline().split()[1:9])
    except (OSError, ValueError):
        return 0.0
    return (user + nice + system + irq + softirq + stolen) / os.sysconf("SC_CLK_TCK")


def end_all(token: str) -> None:
    """Kills every process of a launch whose supervisor is gone: all have the token in their environment."""
    for _ in range(50):
        found = supervisor.holders(token)
        if not found:
            return
        for pid in found:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def _gone(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(GIVE_UP_S)
    except subprocess.TimeoutExpired:
        process.kill()

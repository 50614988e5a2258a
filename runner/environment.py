"""The environment of a launch, name by name.

An allow-list, since what a shell happens to export must not differ between today and tomorrow, and secrets
of a CI job are none of a scenario's business. Both arms get the same, up to the paths of their places, which
have equal lengths.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Collection, Mapping
from pathlib import Path

from tithe.data.records import Scenario

ALLOWED = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR",
    "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR",
    "OMP_*", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS", "VECLIB_MAXIMUM_THREADS",
    "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "HIP_VISIBLE_DEVICES",
)  # fmt: skip
"""Names, or globs of names, that every launch sees."""
SETUP_ALLOWED = (
    "PIP_*", "UV_*", "*_PROXY", "*_proxy", "REQUESTS_CA_BUNDLE",
    "CC", "CXX", "CFLAGS", "CPPFLAGS", "LDFLAGS",
)  # fmt: skip
"""What the set-up sees beyond that: where packages come from, and how they are compiled."""


def allowed(environment: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    """The variables whose names, or globs of names, are listed; sorted, so that their order is fixed."""
    return {
        key: value
        for key, value in sorted(environment.items())
        if any(fnmatch.fnmatchcase(key, name) for name in names)
    }


def base_environment(extra: Collection[str] = (), *, interpreter: str) -> dict[str, str]:
    """The allowed part of tithe's own environment, with the interpreter's folder first on PATH."""
    env = allowed(os.environ, (*ALLOWED, *extra))
    env["PATH"] = os.pathsep.join([str(Path(interpreter).parent), env.get("PATH", os.defpath)])
    return env


def launch_environment(
    scenario: Scenario,
    *,
    checkout: Path,
    interpreter: str,
    pythonpath: Collection[str],
    extra: Collection[str],
    hash_seed: int,
    compile_cache: Path,
) -> dict[str, str]:
    """All that a launch of a scenario sees, but for what `launch` adds for the probe.

    Compilers that cache between processes (inductor, triton) do so in a folder of the run's own: empty at
    first for both arms, warm after the warm-up, and independent of what else ran on this host.
    """
    env = base_environment(extra, interpreter=interpreter)
    env["TORCHINDUCTOR_CACHE_DIR"] = str(compile_cache / "inductor")
    env["TRITON_CACHE_DIR"] = str(compile_cache / "triton")
    env["PYTHONHASHSEED"] = str(hash_seed)
    env.update(scenario.env)
    paths = [str(checkout / entry) if entry != "." else str(checkout) for entry in pythonpath]
    env["PYTHONPATH"] = os.pathsep.join([*paths, *filter(None, [scenario.env.get("PYTHONPATH", "")])])
    return env


def resolve_command(command: tuple[str, ...], interpreter: str) -> tuple[str, ...]:
    """The command with `python` and `python3` as the arm's interpreter."""
    if command and command[0] in ("python", "python3"):
        return (interpreter, *command[1:])
    return command

"""What a launch sees of the environment, and what it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tithe.data.records import Scenario, ScenarioName
from tithe.runner.environment import launch_environment, resolve_command


def environment(scenario: Scenario, extra: tuple[str, ...] = ()) -> dict[str, str]:
    return launch_environment(
        scenario,
        checkout=Path("/c"),
        interpreter="/venv/bin/python",
        pythonpath=("src", "."),
        extra=extra,
        hash_seed=7,
        compile_cache=Path("/cache"),
    )


def test_secrets_stay_out_and_what_is_allowed_comes_in(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "PYTHONSTARTUP", "PYTHONPATH", "MY_DATA"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    env = environment(Scenario(ScenarioName("s"), ("true",), env={"OWN": "1"}), ("MY_*",))
    assert not {"AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "PYTHONSTARTUP"} & env.keys()
    assert (env["MY_DATA"], env["OMP_NUM_THREADS"], env["OWN"]) == ("x", "1", "1")
    assert env["PYTHONPATH"] == "/c/src:/c"
    assert env["PYTHONHASHSEED"] == "7"
    assert env["PATH"].startswith("/venv/bin:")


def test_only_a_bare_python_is_the_arms_interpreter() -> None:
    assert resolve_command(("python", "x"), "/i") == ("/i", "x")
    assert resolve_command(("python3", "x"), "/i") == ("/i", "x")
    assert resolve_command(("/usr/bin/python", "python"), "/i") == ("/usr/bin/python", "python")

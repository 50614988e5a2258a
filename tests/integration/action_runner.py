"""Carries out the steps of action.yml as GitHub's runner does: the same shell, files, variables and conditions.

The expressions that the file uses are evaluated here, and one that is not known is an error, so that the file cannot
grow beyond what is tested.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

HOUSE = Path(__file__).resolve().parents[2]
_EXPRESSION = re.compile(r"\$\{\{\s*(.+?)\s*\}\}")


@dataclass
class Step:
    """One step that was carried out."""

    name: str
    code: int
    printed: str
    environment: Mapping[str, str]


@dataclass
class ActionRun:
    """What the job left behind."""

    steps: dict[str, Step] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
    summary: str = ""

    @property
    def failed(self) -> bool:
        return any(step.code for step in self.steps.values())

    @property
    def printed(self) -> str:
        return "".join(step.printed for step in self.steps.values())


def action() -> dict[str, Any]:
    """The file."""
    return yaml.safe_load((HOUSE / "action.yml").read_text(encoding="utf-8"))


def run_action(
    root: Path,
    scratch: Path,
    inputs: Mapping[str, str],
    event: Mapping[str, Any],
    *,
    skip: tuple[str, ...] = (),
    **env: str,
) -> ActionRun:
    """All steps of the action in the checkout `root`, for a pull request's event.

    Args:
        scratch: Folder for the runner's own files.
        skip: Names of steps that are left out.
    """
    file = action()
    given = {name: str(about.get("default", "")) for name, about in file["inputs"].items()}
    unknown = set(inputs) - set(given)
    assert not unknown, unknown
    given.update(inputs)
    scratch.mkdir(parents=True, exist_ok=True)
    (scratch / "event.json").write_text(json.dumps(event))
    run = ActionRun()
    outputs: dict[str, dict[str, str]] = {}
    failed = False
    (scratch / "summary").touch()
    for step in file["runs"]["steps"]:
        name = step["name"]
        if name in skip or not _condition(step.get("if", ""), given, outputs, failed):
            continue
        (scratch / "output").write_text("")
        variables = {key: _text(str(value), given, outputs) for key, value in step.get("env", {}).items()}
        environment = {
            **os.environ,
            "GITHUB_ACTIONS": "true",
            "GITHUB_EVENT_NAME": "pull_request",
            "GITHUB_EVENT_PATH": str(scratch / "event.json"),
            "GITHUB_OUTPUT": str(scratch / "output"),
            "GITHUB_STEP_SUMMARY": str(scratch / "summary"),
            "GITHUB_REPOSITORY": "owner/project",
            "GITHUB_SERVER_URL": "https://github.example",
            "GITHUB_RUN_ID": "42",
            "RUNNER_TEMP": str(scratch),
            **env,
            **variables,
        }
        script = scratch / "step.sh"
        script.write_text(step["run"])
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
            cwd=root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=300, check=False,
        )  # fmt: skip
        run.steps[name] = Step(name, done.returncode, done.stdout, environment)
        failed = failed or done.returncode != 0
        lines = (scratch / "output").read_text().splitlines()
        outputs[step.get("id", "")] = dict(line.split("=", 1) for line in lines)
    run.outputs = {name: _text(about["value"], given, outputs) for name, about in file["outputs"].items()}
    run.summary = (scratch / "summary").read_text(encoding="utf-8")
    return run


def _text(value: str, inputs: Mapping[str, str], outputs: Mapping[str, Mapping[str, str]]) -> str:
    return _EXPRESSION.sub(lambda found: _value(found[1], inputs, outputs), value)


def _value(expression: str, inputs: Mapping[str, str], outputs: Mapping[str, Mapping[str, str]]) -> str:
    if expression == "github.action_path":
        return str(HOUSE)
    if expression == "github.token":
        return "token-of-the-job"
    if expression == "github.event_name":
        return "pull_request"
    kind, _, name = expression.partition(".")
    if kind == "inputs":
        return _text(inputs[name], inputs, outputs)
    found = re.fullmatch(r"steps\.([a-z]+)\.outputs\.([a-z-]+)", expression)
    assert found, expression
    return outputs.get(found[1], {}).get(found[2], "")


def _condition(
    text: str, inputs: Mapping[str, str], outputs: Mapping[str, Mapping[str, str]], failed: bool
) -> bool:
    terms = [term.strip() for term in text.split("&&") if term.strip()]
    if "always()" not in terms and failed:
        return False
    for term in terms:
        if term == "always()":
            continue
        left, sign, right = re.fullmatch(r"(\S+) (==|!=) '([^']*)'", term).groups()  # type: ignore[union-attr]
        if (_value(left, inputs, outputs) == right) != (sign == "=="):
            return False
    return True

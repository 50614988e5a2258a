"""The README says what is so: its commands run, its example loads, its tables name every command and exit code."""

from __future__ import annotations

import re
from pathlib import Path

from tithe.cli import COMMANDS
from tithe.data.config import load
from tithe.data.errors import EXIT_MEANINGS

README = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")


def _block(after: str, language: str) -> str:
    found = re.search(rf"{re.escape(after)}.*?```{language}\n(.*?)```", README, re.DOTALL)
    assert found, after
    return found.group(1)


def test_the_commands_for_ones_own_repository_run(project) -> None:
    (project.root / "tithe.toml").unlink()
    project.commit(
        "A trainer", {"train.py": "from pkg import work\nimport tithe\n\nwork.run()\ntithe.first_batch()\n"}
    )
    project.commit("A change", {"pkg/work.py": "def run():\n    return sum(range(1_000_000))\n"})
    lines = _block("<!-- tested:", "console").splitlines()
    assert len(lines) >= 5
    for line in lines:
        assert line.startswith("$ tithe ")
        done = project.tithe(*line.removeprefix("$ tithe ").split())
        assert done.returncode in (0, 1), f"{line}\n{done.stdout}{done.stderr}"
        assert done.stdout


def test_the_example_configuration_loads_without_a_change(project) -> None:
    project.write("tithe.toml", _block("A scenario is a command", "toml"))
    project.write("src/mytrainer/__init__.py", "")
    (scenario,) = load(project.root).scenarios
    assert scenario.name == "lm-small"
    assert scenario.stop == "first-step"


def test_the_tables_name_every_command_and_exit_code() -> None:
    for name in COMMANDS:
        assert f"tithe {name}" in README, name
    for code in EXIT_MEANINGS:
        assert re.search(rf"\b{code} \w", README.split("Exit codes", 1)[1]), code


def test_the_excerpt_is_what_the_quickstart_prints() -> None:
    """Its commands are the script's own, in the script's order; scripts/readme_excerpt puts the output in."""
    excerpt = _block("<!-- excerpt", "console")
    script = (Path(__file__).resolve().parents[2] / "scripts" / "quickstart").read_text(encoding="utf-8")
    steps = re.findall(r'^step "([^"]+)"', script, re.MULTILINE)
    shown = re.findall(r"^== (.+)$", excerpt, re.MULTILINE)
    assert len(shown) >= 3
    assert [step for step in steps if step in shown] == shown

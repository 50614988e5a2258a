"""`tithe compare` on a revision against itself, with a proposal on one side."""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path

import pytest

from tests.integration.conftest import Project
from tithe.data.store import Store

JOB = """\
import os, sys
from tithe import first_batch

size = int(os.environ.get("SIZE", "400000")) + (800_000 if "--more" in sys.argv else 0)
try:
    import proposal
    size += proposal.MORE
except ImportError:
    pass
sum(i * i for i in range(size))
first_batch()
"""


@pytest.fixture
def trainer(project: Project) -> Project:
    config = (project.root / "tithe.toml").read_text()
    more = '\n[[scenario]]\nname = "second"\ncommand = "python job.py"\nmetrics = ["ttfb"]\ntimeout = "20s"\n'
    project.commit("Job", {"job.py": JOB, "tithe.toml": config + more})
    return project


def wheel(folder: Path, more: int) -> str:
    """A package with one number in it, as pip installs it."""
    path = folder / f"proposal-{more}-py3-none-any.whl"
    info = f"proposal-{more}.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("proposal.py", f"MORE = {more}\n")
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: proposal\nVersion: {more}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return str(path)


def verdicts(project: Project, *words: str) -> dict[str, object]:
    done = project.tithe("compare", *words, "--format", "json")
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return json.loads(done.stdout)


def test_a_variable_over_all_scenarios(trainer: Project) -> None:
    document = verdicts(trainer, "--head-env", "SIZE=2400000")
    assert document["base"] == document["head"]
    found = {v["scenario"]: v for v in document["verdicts"] if v["gate"]}  # type: ignore[union-attr,index]
    assert {v["verdict"] for v in found.values()} == {"regressed"}
    assert len(found) == 2
    ratios = sorted(v["ratio"] for v in found.values())
    assert ratios[0] <= document["mean_ratio"] <= ratios[1]
    assert document["mean_low"] < document["mean_ratio"] < document["mean_high"]
    with Store.open(trainer.root / ".tithe/store.db") as store:
        assert not store.outcomes()
        assert store.counts()["launches"] > 20


def test_arguments_and_a_package_and_which_side_has_them(trainer: Project, tmp_path: Path) -> None:
    document = verdicts(trainer, "quick", "--head-args", "--more")
    assert document["verdicts"][0]["verdict"] == "regressed"  # type: ignore[index]
    package = wheel(tmp_path, 1_600_000)
    document = verdicts(trainer, "quick", "--base-install", package)
    assert document["verdicts"][0]["verdict"] == "improved"  # type: ignore[index]


def test_an_interpreter_of_the_same_kind_changes_nothing_much(trainer: Project) -> None:
    done = trainer.tithe("compare", "quick", "--head-python", sys.executable)
    assert done.returncode == 0, done.stdout
    assert "over all: " in done.stdout
    assert "regressed" not in done.stdout.split("also moved")[0]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "both sides are the same"),
        (("--head-env", "x"), "NAME=VALUE"),
        (("--head-env", "TITHE_STOP=1"), "set by tithe"),
        (("--head-env", "PYTHONHASHSEED=1"), "set by tithe"),
        (("--head-args", "'"), "split"),
        (("--head-python", "/bin/cat"), "not a Python interpreter"),
        (("--head-python", "nowhere"), "no interpreter"),
        (("nosuch", "--head-env", "A=1"), "no scenario"),
        (("--head-env", "A=1", "--base", "--upload-pack=x"), "not a revision"),
    ],
)
def test_what_cannot_be_compared(trainer: Project, words: tuple[str, ...], said: str) -> None:
    done = trainer.tithe("compare", *words)
    assert done.returncode == 2, done.stdout
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_package_that_does_not_install_is_said(trainer: Project, tmp_path: Path) -> None:
    done = trainer.tithe("compare", "quick", "--head-install", str(tmp_path / "none-1-py3-none-any.whl"))
    assert done.returncode in (1, 3)
    assert "head is not runnable" in done.stdout
    assert "pip install" in done.stdout


def test_several_heads_against_one_base(trainer: Project) -> None:
    one = trainer.commit("Slower", {"job.py": JOB.replace("400000", "2400000")})
    two = trainer.commit("As it was", {"job.py": JOB, "note": "x"})
    done = trainer.tithe(
        "compare", "quick", "--base", f"{one}~1", "--head", one, "--head", two, "--output", "all.json"
    )
    assert done.returncode == 1, done.stderr
    document = json.loads((trainer.root / "all.json").read_text())
    (other,) = document["others"]
    assert (document["head"], other["head"]) == (one, two)
    assert document["base"] == other["base"]
    assert document["id"] != other["id"]
    told = {d["head"]: v["verdict"] for d in (document, other) for v in d["verdicts"] if v["gate"]}
    assert told[one] == "regressed"
    assert told[two] in ("same", "inconclusive")
    ranking = done.stdout.rpartition("smallest first")[2]
    assert ranking.index(two[:10]) < ranking.index(one[:10])


def test_a_head_that_is_the_base_is_refused(trainer: Project) -> None:
    done = trainer.tithe("compare", "--base", "HEAD", "--head", "HEAD~1", "--head", "HEAD")
    assert done.returncode == 2
    assert "is the base itself" in done.stderr

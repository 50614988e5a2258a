"""`tithe noise` runs one revision against itself, and later runs on the host decide with its help."""

from __future__ import annotations

import json

from tests.integration.conftest import Project
from tithe.data.store import Store


def test_noise_is_told_and_kept(project: Project) -> None:
    done = project.tithe("noise", "--blocks", "4", "--format", "json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    readings = {reading["metric"]: reading for reading in document["readings"]}
    assert set(readings) == {"ttfb", "wall"}
    for reading in readings.values():
        assert reading["launches"] == 16
        assert reading["word"] in ("quiet", "noisy", "odd")
        assert 0 < reading["block_sd"] < 1
    with Store.open(project.root / ".tithe/store.db") as store:
        noise = store.noise()
        assert noise["quick", "ttfb"].df == 3  # type: ignore[index]
        assert not store.outcomes()
    done = project.tithe("noise", "quick", "--blocks", "4")
    assert "shows: the smallest effect" in done.stdout


def test_a_scenario_that_fails_is_unknown(project: Project) -> None:
    project.commit("Fails", {"job.py": "raise SystemExit('no data')\n"})
    done = project.tithe("noise", "--blocks", "4")
    assert done.returncode == 3
    assert "too few launches gave a value" in done.stdout
    assert "16 of 16 launches: exit code 1: no data" in done.stdout

"""`tithe graph` on a real repository, and its exports back as what another tool found."""

from __future__ import annotations

import json

from tests.integration.conftest import CONFIG, Project


def test_the_graph_is_shown_and_explained(project: Project) -> None:
    done = project.tithe("graph")
    assert done.returncode == 0, done.stderr
    assert "hub" in done.stdout
    done = project.tithe("graph", "--scenario", "quick", "--to", "pkg/work.py")
    assert "job.py\n└ import → pkg/work.py" in done.stdout
    document = json.loads(project.tithe("graph", "HEAD", "--scenario", "quick", "--format", "json").stdout)
    assert document["nearest"][0] == {"path": "job.py", "hops": 0.0, "proximity": 1.0}
    assert {"source": "scenario:quick", "target": "job.py", "kind": "entry", "weight": 1.0} in document[
        "edges"
    ]


def test_exports_come_back_as_edges(project: Project) -> None:
    for form in ("csv", "dot", "graphml"):
        done = project.tithe("graph", "--format", form, "--output", f"deps.{form}")
        assert done.returncode == 0, done.stderr
        assert (project.root / f"deps.{form}").read_text() == done.stdout
        project.write("tithe.toml", CONFIG.replace("[graph]", f'[graph]\nedges = ["deps.{form}"]'))
        project.write("job.py", "")  # what was known of its imports is in the file alone
        document = json.loads(project.tithe("graph", "--format", "json").stdout)
        assert document["warnings"] == []
        kinds = {(e["source"], e["target"]): e["kind"] for e in document["edges"]}
        assert kinds["job.py", "pkg/work.py"] == "import"
        project.git("checkout", "--quiet", ".")


def test_wrong_words_are_one_line(project: Project) -> None:
    for words, said in (
        (("graph", "--scenario", "quik"), "did you mean"),
        (("graph", "--to", "absent.py"), "absent.py: this revision has no such file"),
        (("graph", "no-such-branch"), "no-such-branch"),
    ):
        done = project.tithe(*words)
        assert (done.returncode, done.stdout) == (2, "")
        assert said in done.stderr.lower()
        assert done.stderr.count("\n") == 1


def test_scenarios_of_a_file_that_is_taken_away_are_still_its_scenarios(project: Project) -> None:
    """At the change nobody imports it any more: the revision before says who did."""
    scenarios = "".join(
        f'[[scenario]]\nname = "{name}"\ncommand = ["python", "{name}.py"]\n\n'
        for name in ("near", "far", "off")
    )
    project.write("tithe.toml", '[tithe]\nmain = "main"\n\n[graph]\npackages = ["pkg"]\n\n' + scenarios)
    for name in ("near", "far", "off"):
        project.write(f"{name}.py", "import pkg.gone\n" if name == "near" else "print(1)\n")
    project.commit("Three jobs", {"pkg/__init__.py": "", "pkg/gone.py": "x = 1\n" * 20})
    (project.root / "pkg" / "gone.py").unlink()
    project.commit("Take it away")
    done = project.tithe("select", "--head", "HEAD", "--base", "HEAD~1", "--budget", "5m", "--format", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    score = {one["scenario"]: one["probability"] for one in (*found["selected"], *found["rest"])}
    assert score["near"] > 2 * max(score["far"], score["off"])

"""Distances and proximities from scenarios to files, on made-up revisions and on a real package."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from tithe.data.config import Config, GraphRule
from tithe.data.graph import GraphBuilder, ScenarioGraph, build, empty
from tithe.data.records import Scenario, ScenarioName, Sha


@dataclass
class Repo:
    revisions: dict[str, dict[str, str]]
    missing: set[str] = field(default_factory=set)
    read: list[str] = field(default_factory=list)

    def files(self, sha: Sha) -> dict[str, str]:
        return {path: blob(text) for path, text in self.revisions[sha].items()}

    def blobs(self, ids: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        texts = {blob(text): text for files in self.revisions.values() for text in files.values()}
        for name in ids:
            if name not in self.missing:
                self.read.append(name)
                yield name, texts[name].encode()


def blob(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def config_of(*scenarios: Scenario, **more: object) -> Config:
    given: dict[str, object] = {"pythonpath": ("src",), **more}
    return Config(root=Path(), path=Path("tithe.toml"), scenarios=scenarios, **given)  # type: ignore[arg-type]


def scenario(command: str, name: str = "s", **more: object) -> Scenario:
    return Scenario(ScenarioName(name), tuple(shlex.split(command)), **more)  # type: ignore[arg-type]


def graph_of(files: dict[str, str], *scenarios: Scenario, **more: object) -> ScenarioGraph:
    return build(Repo({"r": files}), Sha("r"), config_of(*scenarios, **more))


def distances(graph: ScenarioGraph, row: int = 0) -> dict[str, float]:
    return {
        path: float(d) for path, d in zip(graph.files, graph.distance[row], strict=True) if np.isfinite(d)
    }


PACKAGE = {
    "src/pkg/__init__.py": "",
    "src/pkg/main.py": "from pkg import loader\nfrom .sub.deep import thing\n",
    "src/pkg/loader.py": "def load():\n    import pkg.logging\n",
    "src/pkg/logging.py": "",
    "src/pkg/sub/__init__.py": "",
    "src/pkg/sub/deep.py": "from ..loader import load\nthing = 1\n",
    "src/pkg/unused.py": "import pkg.main",
    "train.py": "import helper\nimport pkg.main\n",
    "helper.py": "",
    "configs/lm.yaml": "model: pkg.unused\n",
}


def test_hops_follow_imports_and_the_packages_that_they_run() -> None:
    assert distances(graph_of(PACKAGE, scenario("python train.py"))) == {
        "train.py": 0,
        "helper.py": 1,
        "src/pkg/main.py": 1,
        "src/pkg/__init__.py": 1,
        "src/pkg/loader.py": 2,
        "src/pkg/sub/deep.py": 2,
        "src/pkg/sub/__init__.py": 2,
        "src/pkg/logging.py": 3,
    }


@pytest.mark.parametrize(
    ("command", "entry"),
    [
        ("python train.py", "train.py"),
        ("python ./train.py --steps 3", "train.py"),
        ("python -m pkg.main", "src/pkg/main.py"),
        ("python -c 'import pkg.loader'", "src/pkg/loader.py"),
        ("python helper.py --config=configs/lm.yaml", "configs/lm.yaml"),
        ("pytest src/pkg/unused.py::test_it", "src/pkg/unused.py"),
        ("launcher pkg.main:run", "src/pkg/main.py"),
    ],
)
def test_files_that_a_command_names_are_its_entries(command: str, entry: str) -> None:
    assert distances(graph_of(PACKAGE, scenario(command)))[entry] == 0


def test_a_script_named_from_its_own_folder() -> None:
    files = {"bench/run.py": "import beside\n", "bench/beside.py": ""}
    found = distances(graph_of(files, scenario("python run.py", cwd="bench")))
    assert found == {"bench/run.py": 0, "bench/beside.py": 1}


def test_a_configuration_file_leads_to_what_it_names() -> None:
    found = distances(graph_of(PACKAGE, scenario("python helper.py --config configs/lm.yaml")))
    assert found["src/pkg/unused.py"] == 2
    assert found["src/pkg/main.py"] == 3


def test_code_leads_to_the_data_file_that_it_names() -> None:
    files = {
        "src/pkg/__init__.py": "",
        "src/pkg/m.py": "open(HERE / 'defaults.toml')",
        "src/pkg/defaults.toml": "",
    }
    assert distances(graph_of(files, scenario("python -m pkg.m")))["src/pkg/defaults.toml"] == 2


def test_a_name_made_at_run_time_leads_to_its_package() -> None:
    files = {
        "src/pkg/__init__.py": "",
        "src/pkg/m.py": "importlib.import_module(f'pkg.models.{name}')",
        "src/pkg/models/__init__.py": "",
        "src/pkg/models/mlp.py": "",
    }
    assert distances(graph_of(files, scenario("python -m pkg.m")))["src/pkg/models/mlp.py"] == 2


def test_own_files_and_rules() -> None:
    config = {"rules": (GraphRule(("data/*.csv",), ("s*",)), GraphRule(("other/*",), ("t*",)))}
    files = {"train.py": "", "extra/a.txt": "", "data/x.csv": "", "other/y": ""}
    graph = graph_of(files, scenario("python train.py", files=("extra/*",)), **config)
    assert distances(graph) == {"train.py": 0, "extra/a.txt": 0, "data/x.csv": 1}


def test_a_link_to_a_folder_inside_a_package_is_followed() -> None:
    files = {
        "tithe/__init__.py": "",
        "tithe/data": "../data",
        "data/__init__.py": "",
        "data/x.py": "import tithe.data.y",
        "data/y.py": "",
    }
    found = distances(graph_of(files, scenario("python -m tithe.data.x"), pythonpath=(".",)))
    assert found["data/x.py"] == 0
    assert found["data/y.py"] == 1


def test_what_many_reach_is_farther_than_what_one_reaches() -> None:
    files = {f"m{i}.py": "import hub\n" for i in range(8)} | {"hub.py": "", "own.py": ""}
    files["m0.py"] = "import hub\nimport own\n"
    graph = graph_of(files, *(scenario(f"python m{i}.py", f"s{i}") for i in range(8)))
    first = graph.proximity[graph.row[ScenarioName("s0")]]
    assert first[graph.column["own.py"]] > 1.5 * first[graph.column["hub.py"]]
    assert ((graph.proximity >= 0) & (graph.proximity <= 1)).all()


def test_who_only_tests_import_is_no_hub() -> None:
    files = {"train.py": "import a\n", "a.py": ""}
    alone = graph_of(files, scenario("python train.py"))
    tested = graph_of(files | {f"tests/t{i}.py": "import a\n" for i in range(9)}, scenario("python train.py"))
    assert tested.proximity[0, tested.column["a.py"]] == alone.proximity[0, alone.column["a.py"]]


def test_import_cycles_end() -> None:
    graph = graph_of({"a.py": "import b", "b.py": "import a"}, scenario("python a.py"))
    assert distances(graph) == {"a.py": 0, "b.py": 1}


def test_a_file_that_does_not_parse_is_a_warning_and_keeps_no_edges() -> None:
    graph = graph_of({"a.py": "import b\n(", "b.py": ""}, scenario("python a.py"))
    assert distances(graph) == {"a.py": 0}
    assert any("a.py" in warning and "parse" in warning for warning in graph.warnings)


def test_a_command_that_names_nothing_of_the_revision_is_a_warning() -> None:
    graph = graph_of({"a.py": ""}, scenario("./absent --fast"))
    assert graph.distance.shape == (1, 0)
    assert any("scenario s" in warning for warning in graph.warnings)


def test_a_missing_blob_is_a_warning() -> None:
    repo = Repo({"r": {"a.py": "import b", "b.py": ""}})
    repo.missing = {blob("import b")}
    graph = build(repo, Sha("r"), config_of(scenario("python a.py")))
    assert distances(graph) == {"a.py": 0}
    assert any("not in this clone" in warning for warning in graph.warnings)


def test_manifests_do_not_lead_everywhere() -> None:
    files = {"a.py": "PATH = 'pyproject.toml'", "pyproject.toml": "packages = ['b.py']", "b.py": ""}
    assert "b.py" not in distances(graph_of(files, scenario("python a.py")))


def test_no_scenarios_and_no_files() -> None:
    assert graph_of(PACKAGE).distance.shape[0] == 0
    assert graph_of({}, scenario("python a.py")).distance.shape == (1, 0)
    assert empty([scenario("x")]).distance.shape == (1, 0)


class TestCache:
    def config(self) -> Config:
        return config_of(scenario("python train.py"))

    def test_each_blob_is_read_once_over_revisions_and_processes(self, tmp_path: Path) -> None:
        changed = PACKAGE | {"helper.py": "import pkg.unused"}
        repo = Repo({"one": PACKAGE, "two": changed})
        builder = GraphBuilder(repo, self.config(), tmp_path)  # type: ignore[arg-type]
        builder.build(Sha("one"))
        builder.build(Sha("two"))
        assert len(repo.read) == len(set(repo.read))
        repo.read.clear()
        again = build(Repo(repo.revisions), Sha("two"), self.config(), tmp_path)  # type: ignore[arg-type]
        assert again.distance[0, again.column["src/pkg/unused.py"]] == 2

    def test_a_stored_graph_is_the_graph(self, tmp_path: Path) -> None:
        repo = Repo({"one": PACKAGE})
        made = build(repo, Sha("one"), self.config(), tmp_path)  # type: ignore[arg-type]
        repo.read.clear()
        stored = build(repo, Sha("one"), self.config(), tmp_path)  # type: ignore[arg-type]
        assert repo.read == []
        assert stored.files == made.files
        assert stored.warnings == made.warnings
        np.testing.assert_array_equal(stored.distance, made.distance)
        np.testing.assert_array_equal(stored.proximity, made.proximity)

    def test_a_damaged_cache_is_made_again(self, tmp_path: Path) -> None:
        repo = Repo({"one": PACKAGE})
        made = build(repo, Sha("one"), self.config(), tmp_path)  # type: ignore[arg-type]
        for path in (tmp_path / "graph").iterdir():
            path.write_bytes(path.read_bytes()[:40] + b"\nnonsense")
        again = build(repo, Sha("one"), self.config(), tmp_path)  # type: ignore[arg-type]
        np.testing.assert_array_equal(again.distance, made.distance)

    def test_a_folder_that_cannot_be_written_is_no_fault(self, tmp_path: Path) -> None:
        file = tmp_path / "file"
        file.write_text("")
        assert build(Repo({"one": PACKAGE}), Sha("one"), self.config(), file).files  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["click", "tabulate", "grimp"])
def test_edges_are_those_that_grimp_finds_in_a_real_package(name: str) -> None:
    grimp = pytest.importorskip("grimp")
    package = __import__(name)
    root = Path(str(package.__file__)).parent
    theirs = grimp.build_graph(name, include_external_packages=False, exclude_type_checking_imports=True)
    files = {
        f"{name}/{path.relative_to(root).as_posix()}": path.read_text(encoding="utf-8")
        for path in sorted(root.rglob("*.py"))
    }
    module_of = {path: path[:-3].replace("/", ".").removesuffix(".__init__") for path in files}
    modules = sorted(set(module_of.values()) & set(theirs.modules))
    scenarios = tuple(scenario(f"python -m {module}", module) for module in modules)
    graph = graph_of(files, *scenarios, pythonpath=(".",))
    path_of = {module: path for path, module in module_of.items()}
    checked = 0
    for module in modules:
        row = graph.row[ScenarioName(module)]
        if f"{module}.__main__" in path_of or graph.distance[row, graph.column[path_of[module]]] != 0:
            continue
        # A package above the module itself is an entry of `-m` and not an edge.
        above = {module.rsplit(".", count)[0] for count in range(1, module.count(".") + 1)}
        one_hop = {module_of[path] for path, hops in distances(graph, row).items() if hops == 1}
        expected = theirs.find_modules_directly_imported_by(module)
        assert expected - above <= one_hop, module
        packages = {m for m in one_hop if path_of[m].endswith("__init__.py")}
        assert one_hop - expected - packages - above == set(), module
        checked += 1
    assert checked >= len(modules) // 2


def test_a_short_name_in_a_config_leads_to_the_module_that_a_registry_would_load() -> None:
    files = {
        "train.py": "from pkg import registry\n",
        "small.json": '{"model": "resnet:Block", "depth": "deep"}',
        "other.json": '{"model": "mlp"}',
        "src/pkg/__init__.py": "",
        "src/pkg/registry.py": "import importlib\n",
        "src/pkg/models/__init__.py": "",
        "src/pkg/models/resnet.py": "",
        "src/pkg/models/mlp.py": "",
        **{f"src/pkg/p{n}/{name}.py": "" for n in range(4) for name in ("__init__", "deep")},
    }
    graph = graph_of(
        files, scenario("python train.py small.json", "a"), scenario("python train.py other.json", "b")
    )
    resnet, mlp = graph.column["src/pkg/models/resnet.py"], graph.column["src/pkg/models/mlp.py"]
    near = graph.proximity
    assert near[0, resnet] > 0.2 > near[1, resnet]
    assert near[1, mlp] > 0.2 > near[0, mlp]
    # A word that many modules are called by says nothing.
    assert not any(path.endswith("deep.py") and near[0, at] > 0.2 for path, at in graph.column.items())


ENVIRONMENT = {
    "a/train.py": "",
    "b/train.py": "",
    "requirements.txt": "numpy\n-r requirements/base.in\n# -r none.txt\n",
    "requirements/base.in": "--constraint=../tools/pins.txt  # said\n",
    "tools/pins.txt": "",
    "uv.lock": "",
    "pyproject.toml": "",
    "environment.yml": "dependencies: [a.train]",
    "setup.py": "import b.train",
    "a/requirements-gpu.txt": "",
    "docs/requirements.txt": "",
    "native/Cargo.lock": "",
    "native/kernel.cc": "",
}


def test_what_an_environment_holds_is_near_to_all_that_run_in_it() -> None:
    graph = graph_of(ENVIRONMENT, scenario("python a/train.py", "a"), scenario("python b/train.py", "b"))
    shared = {
        "requirements.txt",
        "requirements/base.in",
        "uv.lock",
        "pyproject.toml",
        "environment.yml",
        "setup.py",
    }
    assert distances(graph, 0) == {
        "a/train.py": 0,
        "tools/pins.txt": 4,
        "a/requirements-gpu.txt": 2,
    } | dict.fromkeys(shared, 2)
    assert distances(graph, 1) == {"b/train.py": 0, "tools/pins.txt": 4} | dict.fromkeys(shared, 2)
    near = {path: float(graph.proximity[0, at]) for path, at in graph.column.items()}
    assert 0 < near["tools/pins.txt"] < near["uv.lock"] < near["a/requirements-gpu.txt"] < 0.5


def test_an_environment_that_many_share_is_a_hub() -> None:
    few, many = (
        graph_of({"a.py": "", "uv.lock": ""}, *(scenario("python a.py", f"s{at}") for at in range(count)))
        for count in (2, 200)
    )
    assert 0 < 2 * many.proximity[0, many.column["uv.lock"]] < few.proximity[0, few.column["uv.lock"]]


def test_what_the_set_up_is_built_from_is_of_all_environments() -> None:
    more = {
        "setup": "python -m pip install --requirement=docs/requirements.txt -e .",
        "setup_key": ("native/*",),
    }
    graph = graph_of(ENVIRONMENT, scenario("python a/train.py"), **more)
    assert {"docs/requirements.txt", "native/Cargo.lock", "native/kernel.cc"} <= set(distances(graph))
    assert "docs/requirements.txt" not in distances(graph_of(ENVIRONMENT, scenario("python a/train.py")))


def test_an_environment_names_no_scenario_whose_command_names_nothing() -> None:
    graph = graph_of({"uv.lock": ""}, scenario("./absent"))
    assert any("scenario s" in warning for warning in graph.warnings)
    assert distances(graph) == {"uv.lock": 2}

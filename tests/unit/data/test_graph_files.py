"""Edges that another tool found: formats, faults, and their way into the graph of a revision."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.unit.data.test_graph import Repo, blob, config_of, distances, scenario
from tithe.data import graph_files
from tithe.data.config import Config
from tithe.data.graph import GraphBuilder, build
from tithe.data.graph_files import MAX_BYTES, read
from tithe.data.records import Sha

GRAPHML = """<?xml version="1.0"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key id="d0" for="edge" attr.name="kind" attr.type="string"/>
  <key id="d1" for="node" attr.name="label" attr.type="string"/>
  <graph edgedefault="directed">
    <node id="n0"><data key="d1">src/a.cc</data></node>
    <node id="n1"><data key="d1">src/b.h</data></node>
    <edge source="n0" target="n1"><data key="d0">lazy</data></edge>
  </graph>
</graphml>
"""
DOT = """// made by a tool
strict digraph "deps" {
  rankdir=LR; node [shape=box];
  n0 [label="src/a.cc"]; n1 [label="src/b.h", shape=oval];
  n0 -> n1 [kind=lazy];
  src/a.cc:p1:n -> { "src/b.h" src/c-d.h } -> "src/e \\"f\\".h";  # said
  subgraph cluster_0 { x -- y }
}
"""


@pytest.mark.parametrize(
    ("text", "edges"),
    [
        ("a.cc,b.h\n", [("a.cc", "b.h", "")]),
        ('\ufeffsource,target,kind\n# said\n\n"a, b.cc",b.h,lazy\n', [("a, b.cc", "b.h", "lazy")]),
        ("From\tTo\na b.cc\tb.h\n", [("a b.cc", "b.h", "")]),
        ("a.cc  b.h import\n", [("a.cc", "b.h", "import")]),
        (GRAPHML, [("n0", "n1", "lazy")]),
        (
            DOT,
            [
                ("n0", "n1", "lazy"),
                ("src/a.cc", "src/b.h", ""),
                ("src/a.cc", "src/c-d.h", ""),
                ("src/b.h", 'src/e "f".h', ""),
                ("src/c-d.h", 'src/e "f".h', ""),
                ("x", "y", ""),
                ("y", "x", ""),
            ],
        ),
        ("", []),
    ],
)
def test_every_format_is_known_by_its_content(text: str, edges: list[tuple[str, str, str]]) -> None:
    found = read(text.encode())
    assert list(found.edges) == edges
    assert found.faults == ()


@pytest.mark.parametrize("text", [GRAPHML, DOT])
def test_nodes_with_numbers_are_known_by_their_labels(text: str) -> None:
    assert read(text.encode()).names == {"n0": "src/a.cc", "n1": "src/b.h"}


BOMB = """<?xml version="1.0"?>
<!DOCTYPE graphml [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>
<graphml><graph><node id="&b;"/></graph></graphml>
"""


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (BOMB.encode(), "2: has a document type"),
        (b'<!DOCTYPE g SYSTEM "file:///etc/passwd"><graphml/>', "1: has a document type"),
        (b"<graphml>\n<graph>\n</graphml>", "3: is not well-formed XML: mismatched tag"),
        (b"<html></html>", "1: is XML, but not GraphML"),
        (b"<graphml><graph><edge source='a'/></graph></graphml>", "1: has an edge without"),
        (b"<a>" * 100, "1: is nested deeper"),
        (b'<?xml version="1.0" encoding="x-none"?><graphml/>', "1: cannot be read: unknown encoding"),
        (b"digraph {\n a -> ;\n}", "2: expected a name and found ';'"),
        (b"digraph {\n a -> b", "2: ends before its last }"),
        (b'digraph {\n a -> "b', "2: cannot be read from"),
        (b"digraph {" + b"{" * 100, "1: is nested deeper"),
        (b"a,b\nc\n,d\nx,y", "2: names no source and target (and 1 more such lines)"),
        (b'a,b\n"c', "2: cannot be read"),
        (b"\x00\x01\x02", ": is neither"),
        (b"x" * (MAX_BYTES + 1), ": is larger than 32 MiB"),
    ],
)
def test_what_cannot_be_read_is_one_fault_with_its_line(content: bytes, fault: str) -> None:
    found = read(content)
    assert len(found.faults) == 1
    assert found.faults[0].startswith(fault)


def test_more_edges_than_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_files, "MAX_EDGES", 2)
    for text in ("a,b\n" * 3, "graph { a -- b -- c }"):
        assert "more than 2 edges" in read(text.encode()).faults[0]


@pytest.mark.parametrize(
    "content",
    [
        b"/* a */ " * 50_000 + b"x",
        b"digraph { " + b"/* " * 100_000,
        b"digraph { " + b'"' + b"\\" * 100_000,
        b"digraph { a " + b"<x" * 50_000,
        b"# " * 500_000,
        b"a" * 1_000_000,
    ],
)
def test_hostile_text_takes_no_long_time(content: bytes) -> None:
    begun = time.monotonic()
    read(content)
    assert time.monotonic() - begun < 5


def given(edges: str, path: str = "tools/deps.csv", **more: object) -> tuple[Repo, Config]:
    files = {"run.py": "", "src/a.cc": "", "src/b.h": "", "pkg/__init__.py": "", "pkg/m.py": "", path: edges}
    return Repo({"r": files}), config_of(
        scenario("python run.py"), pythonpath=(".",), edge_files=(path,), **more
    )


def test_given_edges_are_of_the_graph() -> None:
    repo, config = given("run.py,src/a.cc\nsrc/a.cc,../src/b.h,word\npkg.m,src/b.h\nrun.py,pkg.m,lazy\n")
    builder = GraphBuilder(repo, config)  # type: ignore[arg-type]
    assert builder.dependencies(Sha("r")).edges == (
        ("pkg/m.py", "src/b.h", "given"),
        ("run.py", "pkg/m.py", "lazy"),
        ("run.py", "src/a.cc", "given"),
        ("src/a.cc", "src/b.h", "word"),
    )
    graph = builder.build(Sha("r"))
    assert graph.warnings == ()
    assert distances(graph) == {"run.py": 0, "src/a.cc": 1, "pkg/m.py": 1, "src/b.h": 2}


def test_nodes_that_name_no_file_are_one_warning() -> None:
    graph = build(*_sha(given("run.py,src/a.cc\n/usr/x.h,src/a.cc\nsrc/a.cc,gone.h\n")))
    assert graph.warnings == ("tools/deps.csv: 2 of 4 nodes name no file here, such as /usr/x.h",)
    assert distances(graph) == {"run.py": 0, "src/a.cc": 1}


def test_a_broken_file_is_one_warning_and_the_graph_is_built() -> None:
    graph = build(*_sha(given("digraph {\n run.py -> ]\x1b[31m\n}", "deps.dot")))
    assert graph.warnings == ("deps.dot:2: expected a name and found ']'",)
    assert distances(graph) == {"run.py": 0}


def test_a_revision_without_the_file_says_so() -> None:
    repo, config = given("")
    repo.revisions["r"].pop("tools/deps.csv")
    graph = build(*_sha((repo, config)))
    assert graph.warnings == ("tools/deps.csv: [graph] edges: this revision has no such file",)


def test_a_file_that_a_partial_clone_lacks_is_a_warning() -> None:
    repo, config = given("run.py,src/a.cc\n")
    repo.missing = {blob("run.py,src/a.cc\n")}
    assert any("not in this clone" in warning for warning in build(*_sha((repo, config))).warnings)


def test_another_list_of_edges_is_another_graph(tmp_path: Path) -> None:
    repo, config = given("run.py,src/a.cc\n")
    repo.revisions["q"] = {**repo.revisions["r"], "tools/deps.csv": "run.py,src/b.h\n"}
    for _ in range(2):  # made, and from the cache
        assert distances(build(repo, Sha("r"), config, tmp_path)) == {"run.py": 0, "src/a.cc": 1}  # type: ignore[arg-type]
        assert distances(build(repo, Sha("q"), config, tmp_path)) == {"run.py": 0, "src/b.h": 1}  # type: ignore[arg-type]
    none = config_of(*config.scenarios, pythonpath=config.pythonpath)
    assert distances(build(repo, Sha("r"), none, tmp_path)) == {"run.py": 0}  # type: ignore[arg-type]


def _sha(made: tuple[Repo, Config]) -> tuple[Repo, Sha, Config]:
    return made[0], Sha("r"), made[1]

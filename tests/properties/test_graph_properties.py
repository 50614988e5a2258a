"""What is written of a graph is read back as the same edges; and nothing that is read ends in a fault of ours."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.data.test_graph import Repo, config_of, scenario
from tithe.data import graph_export, graph_files
from tithe.data.graph import Dependencies, GraphBuilder
from tithe.data.reach import KIND_WEIGHT
from tithe.data.records import ScenarioName, Sha

KNOWN = {"edges"}
# Anything that a path may hold but blanks around its parts, which edge lists take away.
PARTS = st.text(
    st.one_of(
        st.sampled_from(" #\"'\\,;:->[]{}=<>&é\t\n"),
        st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]),
    ),
    min_size=1,
    max_size=6,
).filter(lambda part: part == part.strip() and part.strip(".") and "/" not in part)
PATHS = st.lists(PARTS, min_size=1, max_size=3).map("/".join).filter(lambda path: len(path) < 40)
KINDS = st.sampled_from(sorted(KIND_WEIGHT))


@st.composite
def found(draw: st.DrawFn) -> Dependencies:
    files = draw(st.lists(PATHS, min_size=2, max_size=8, unique=True))
    pairs = st.tuples(st.sampled_from(files), st.sampled_from(files)).filter(lambda pair: pair[0] != pair[1])
    edges = draw(st.dictionaries(pairs, KINDS, max_size=12))
    named = tuple(sorted((source, target, kind) for (source, target), kind in edges.items()))
    return Dependencies((ScenarioName("s"),), ({files[0]: (0, 1.0)},), named, tuple(sorted(files)))


@pytest.mark.parametrize("form", ["csv", "dot", "graphml"])
@given(made=found())
@settings(max_examples=60, deadline=None)
def test_what_is_written_is_read_back(form: Any, made: Dependencies) -> None:
    text = graph_export.render(graph_export.to_networkx(made), form)
    # Empty files, so that nothing but the imported edges is there.
    files = {path: "" for path in made.files if path.rpartition("/")[2] not in KNOWN} | {"edges": text}
    config = config_of(scenario("python none.py"), pythonpath=(".",), edge_files=("edges",))
    read = GraphBuilder(Repo({"r": files}), config).dependencies(Sha("r"))  # type: ignore[arg-type]
    assert read.edges == made.edges
    assert not [warning for warning in read.warnings if warning.startswith("edges")]


WORDS = ["digraph", *'{}[]=;,<>"\n\\:', "->", "--", "a", '"b', "/*", "\t", "<graphml>", "<node id='a'>"]
WORDS += ["<edge source='a' target='b'>", "</edge>", "<data key='k'>"]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=30).map(lambda words: " ".join(words).encode())


@given(content=st.one_of(st.binary(max_size=200), TEXTS))
@settings(max_examples=300, deadline=None)
def test_whatever_a_file_holds_it_is_read_or_refused(content: bytes) -> None:
    read = graph_files.read(content)
    assert len(read.faults) <= 1
    assert all(source and target for source, target, _ in read.edges)

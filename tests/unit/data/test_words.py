"""The words of code, and those of the part of a file that a scenario runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.data.test_graph import Repo, config_of, scenario
from tithe.data.graph import GraphBuilder
from tithe.data.records import Sha
from tithe.data.words import (
    MAX_BYTES,
    cap,
    gathered,
    identifiers,
    joined,
    none,
    of_scenario,
    pack,
    parts_of,
    telling,
    tokens,
    unpack,
    words,
)
from tithe.selector.text import TextIndex

BENCH = b'''\
import numpy as np
from pkg import linear_ramp

SHAPES = [(3, 4)]

class Pad:
    """Padding."""
    def setup(self):
        self.array = np.zeros(SHAPES)

    def time_pad(self):
        linear_ramp(self.array)

    def time_edge(self):
        np.pad(self.array, "edge")

@decorated
def time_sort():
    np.sort_complex([])
'''


def test_names_whole_and_in_pieces() -> None:
    assert identifiers("def linear_ramp(self, HTTPServer2, x, np): _go") == ["linear_ramp", "httpserver2"]
    assert tokens("linear_ramp HTTPServers x") == ["linear", "ramp", "http", "server"]
    assert "linear_ramp" in words("linear_ramp()")


def test_each_part_has_its_own_words() -> None:
    parts = parts_of(BENCH)
    assert set(parts) == {"", "Pad", "Pad.setup", "Pad.time_pad", "Pad.time_edge", "time_sort"}
    assert parts["Pad.time_pad"]["linear_ramp"] == 1
    assert "linear_ramp" not in parts["Pad"]
    assert "padding" in parts["Pad"]
    assert parts["time_sort"].keys() >= {"sort_complex", "decorated"}
    assert "shape" in parts[""]


def test_a_scenario_has_the_words_of_what_it_names() -> None:
    parts = parts_of(BENCH)
    method = of_scenario(parts, ["bench_lib", "Pad", "time_pad"])
    assert method["linear_ramp"] == 2  # called, and imported outside
    assert "edge" not in method
    assert "zero" in method  # its set-up
    whole = of_scenario(parts, ["Pad"])
    assert whole["edge"] == 2  # the name of a method, and its argument
    assert "sort_complex" not in whole
    everything = of_scenario(parts, ["absent"])
    assert everything["sort_complex"] == 1
    assert everything["edge"] == 2


def test_what_cannot_be_parsed_is_read_as_text_and_what_is_huge_not_at_all() -> None:
    assert parts_of(b"def broken(:\n  some_name")[""]["some_name"] == 1
    assert parts_of(b"\xff\xfe\0 x" * 10)[""] == {}
    assert parts_of(b"a_b " * (MAX_BYTES // 4 + 1)) == {}
    assert parts_of(b"(" * 100_000) is not None


def test_no_documents() -> None:
    assert gathered([], []).documents == 0
    assert unpack(pack(none())).documents == 0


def test_a_document_keeps_the_words_that_say_most() -> None:
    counts = {"short": 9, "a_long_name": 1, "another_one": 2, "odd": 3}
    assert list(telling(counts, 3)) == ["another_one", "a_long_name", "short"]
    assert telling(counts, 4) is counts
    assert [cap(count) for count in (0, 10, 10_000, 10**6)] == [512, 512, 128, 32]


@given(
    st.lists(st.tuples(st.integers(1, 12), st.booleans()), max_size=12),
    st.lists(st.integers(1, 12), max_size=12),
)
def test_documents_of_before_are_as_good_as_fresh_ones(now: list[tuple[int, bool]], then: list[int]) -> None:
    def document(key: int) -> Mapping[str, int]:
        return {f"w{word}": key + word for word in range(key % 5)}

    earlier = gathered([document(key) for key in then], range(len(then)), then)
    known = {key for key, again in now if not again}.intersection(then)
    new = list(dict.fromkeys(key for key, _ in now if key not in known))
    fresh = gathered(
        [document(key) for key in new],
        [-1 if key in known else new.index(key) for key, _ in now],
        [key for key, _ in now],
    )
    whole = joined(earlier, fresh)
    assert list(whole.texts) == sorted(whole.texts)
    assert (np.diff(whole.of) >= 0).all()
    for at, (key, _) in enumerate(now):
        mine = whole.of == whole.document[at]
        words = [whole.texts[word] for word in whole.word[mine]]
        assert dict(zip(words, whole.count[mine].tolist(), strict=True)) == document(key)
    again = unpack(pack(whole))
    assert again.texts == whole.texts
    assert joined(again, replace(gathered([], [-1] * len(now)), key=again.key)).texts == again.texts


def test_damaged_columns_are_refused() -> None:
    good = pack(gathered([{"a_b": 1}, {"c_d": 2}], [0, 1, -1], [7, 8, 9]))
    for broken in (
        good | {"word": good["word"] + 1},
        good | {"of": good["of"][::-1].copy()},
        good | {"document": good["document"] - 1},
        good | {"count": good["count"] * np.float32(np.nan)},
        good | {"count": good["count"].astype(np.float64)},
        good | {"key": good["key"][:1]},
        good | {"of": good["of"][:1]},
    ):
        with pytest.raises(ValueError, match=r"columns|refers|count"):
            unpack(broken)


def test_the_graph_has_the_words_of_each_scenario() -> None:
    scenarios = (
        scenario("python bench.py Pad.time_pad", "pad"),
        scenario("python bench.py time_sort", "sort"),
        scenario("python other.py", "other"),
        scenario("python bench.py time_sort", "sort-again"),
        scenario("no-such-program", "none"),
    )
    repo = Repo({"r": {"bench.py": BENCH.decode(), "other.py": "some_thing()\n"}})
    found = GraphBuilder(repo, config_of(*scenarios)).build(Sha("r")).words  # type: ignore[arg-type]
    assert found is not None
    assert found.document.tolist() == [0, 1, 2, 1, -1]
    rows = {(int(of), found.texts[word]) for of, word in zip(found.of, found.word, strict=True)}
    assert (0, "linear_ramp") in rows
    assert (1, "sort_complex") in rows
    assert (2, "some_thing") in rows
    assert (1, "pad") not in rows


def test_what_has_not_changed_is_not_read_again(tmp_path: Path) -> None:
    scenarios = (scenario("python bench.py time_sort", "sort"), scenario("python other.py", "other"))
    repo = Repo(
        {
            "r": {"bench.py": BENCH.decode(), "other.py": "some_thing()\n"},
            "s": {"bench.py": BENCH.decode(), "other.py": "some_other()\n"},
        }
    )
    config = config_of(*scenarios)
    first = GraphBuilder(repo, config, tmp_path)
    words_of = first.build(Sha("r")).words
    asked = len(repo.read)
    cached = GraphBuilder(repo, config, tmp_path).build(Sha("s")).words
    assert len(repo.read) == asked + 1, "only other.py has changed"
    given_words = (
        GraphBuilder(repo, config, scans=first.scans(Sha("r")), words=words_of).build(Sha("s")).words
    )
    alone = GraphBuilder(repo, config).build(Sha("s")).words
    assert cached is not None
    assert given_words is not None
    assert alone is not None
    assert "some_other" in alone.texts
    for found in (cached, given_words):
        assert found.texts == alone.texts
        assert found.key.tolist() == alone.key.tolist()
        index, other = TextIndex(found), TextIndex(alone)
        for word in alone.texts:
            assert index.score([word]).tolist() == other.score([word]).tolist()

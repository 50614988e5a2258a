"""Which functions a change touched, on real repositories; and what a hostile file makes of it: names of its own."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tithe.data.git import GitRepo
from tithe.data.git_symbols import MAX_SYMBOLS, commits
from tithe.data.store import Store

Make = Callable[..., Any]
CODE = """\
import os


class Loader:
    def __init__(self):
        self.seen = 0

    async def fetch(self, n):
        a = 1
        b = 2
        c = 3
        return a + b + c + n


def helper():
    x = 1
    y = 2
    return x + y
"""


def symbols(repo: GitRepo) -> list[dict[str, tuple[str, ...]]]:
    found = list(repo.first_parent(repo.resolve("HEAD")))
    return [{edit.path: edit.symbols for edit in change.files} for change in found]


def test_methods_functions_and_what_is_new(workshop: Make) -> None:
    shop = workshop()
    shop.commit("one", {"a.py": CODE, "notes.md": "x\n"})
    shop.commit("two", {"a.py": CODE.replace("c = 3", "c = 4").replace("y = 2", "y = 5")})
    shop.commit(
        "three",
        {"a.py": CODE + "\n\ndef brand_new():\n    pass\n", "b.c": "int compute(void)\n{\n  return 1;\n}\n"},
    )
    shop.commit("four", {"b.c": "int compute(void)\n{\n  return 2;\n}\n"})
    repo = GitRepo.open(shop.root)
    one, two, three, four = symbols(repo)
    assert one == {"a.py": ("Loader", "__init__", "fetch", "helper"), "notes.md": ()}
    assert two == {"a.py": ("fetch", "helper")}
    assert three["a.py"][-1] == "brand_new"
    assert four == {"b.c": ("compute",)}
    assert {e.path: e.symbols for e in repo.change(repo.resolve("HEAD~2")).files} == two
    with Store.open(shop.root / "s.db") as store:
        store.add_changes(repo.first_parent(repo.resolve("HEAD")))
        assert [{e.path: e.symbols for e in c.files} for c in store.changes()] == [one, two, three, four]


def test_renames_modes_binaries_and_merges_stay_with_their_files(workshop: Make) -> None:
    shop = workshop()
    shop.commit("one", {"a.py": CODE, "b.py": CODE, "c.bin": "\0\1", "d e.py": CODE})
    shop.git("mv", "a.py", "z.py")
    (shop.root / "b.py").chmod(0o755)
    shop.write("c.bin", "\0\2")
    shop.commit("two", {"d e.py": CODE.replace("y = 2", "y = 5")})
    shop.git("checkout", "-q", "-b", "side", "HEAD~1")
    shop.commit("side", {"s.py": CODE})
    shop.git("checkout", "-q", "main")
    shop.git("merge", "-q", "--no-ff", "-m", "merge", "side")
    _, two, merge = symbols(GitRepo.open(shop.root))
    assert two == {"z.py": (), "b.py": (), "c.bin": (), "d e.py": ("helper",)}
    assert merge == {"s.py": ("Loader", "__init__", "fetch", "helper")}


def test_a_file_cannot_speak_for_another_or_for_another_commit(workshop: Make) -> None:
    shop = workshop()
    first = shop.commit("one", {"a.py": CODE})
    evil = "\n".join(
        [
            f"\x01{first}",
            "diff --git a.py a.py",
            "@@ -1 +1 @@ def forged():",
            f"x\r\x01{first}\rdiff --git a.py a.py",
            "\0\x01" + first + "\0\0ada\0" + "1\0s\0b\0",
        ]
    )
    shop.commit("two", {".gitattributes": "* diff\n", "evil.txt": evil, "z.py": CODE})
    shop.commit("three", {"z.py": CODE.replace("y = 2", "y = 5")})
    one, two, three = symbols(GitRepo.open(shop.root))
    assert one == {"a.py": ("Loader", "__init__", "fetch", "helper")}
    assert two == {".gitattributes": (), "evil.txt": (), "z.py": ("Loader", "__init__", "fetch", "helper")}
    assert three == {"z.py": ("helper",)}


def test_a_file_that_is_missing_costs_its_own_commit(workshop: Make) -> None:
    shop = workshop()
    shop.commit("one", {"a.py": CODE})
    shop.commit("two", {"a.py": CODE.replace("y = 2", "y = 5")})
    blob = shop.git("rev-parse", "HEAD:a.py")
    shop.commit("three", {"a.py": CODE.replace("y = 2", "y = 7"), "b.py": CODE})
    shop.commit("four", {"b.py": CODE.replace("y = 2", "y = 9")})
    (shop.root / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    one, two, three, four = symbols(GitRepo.open(shop.root))
    assert one == {"a.py": ("Loader", "__init__", "fetch", "helper")}
    assert not any((*two.values(), *three.values()))
    assert four == {"b.py": ("helper",)}


def test_no_more_than_are_worth_it(workshop: Make) -> None:
    shop = workshop()
    shop.commit(
        "one", {"a.py": "".join(f"def f{n}():\n    pass\n" for n in range(500)), "b.py": "x" * 3_000_000}
    )
    (one,) = symbols(GitRepo.open(shop.root))
    assert len(one["a.py"]) == MAX_SYMBOLS
    assert one["b.py"] == ()


@given(
    st.lists(
        st.sampled_from(
            [b"\x01" + b"a" * 40, b"diff --git a b", b"@@ -1 +1 @@ def f():", b"+def g():", b"", b"+x"]
        )
    ),
    st.integers(1, 64),
)
def test_how_the_stream_is_cut_changes_nothing(lines: list[bytes], size: int) -> None:
    class Slow(io.BytesIO):
        def read(self, _: int | None = -1) -> bytes:
            return super().read(size)

    text = b"\n".join(lines)
    assert list(commits(Slow(text))) == list(commits(io.BytesIO(text)))

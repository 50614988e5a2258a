"""What one file refers to, from its text alone."""

from __future__ import annotations

import pytest

from tithe.data.imports import MAX_BYTES, Ref, scan_python, scan_text


def refs(source: str) -> set[tuple[str, str]]:
    return {(ref.kind, ref.target) for ref in scan_python(source.encode()).refs}


def test_import_kinds_are_told_apart() -> None:
    source = """
import a.b
from c import d
def f():
    import lazy_one
    async def g():
        from lazy_two import x
import importlib
importlib.import_module("dynamic.one")
__import__("dynamic.two")
name = "strings.one"
"""
    assert refs(source) == {
        ("import", "a.b"),
        ("import", "c"),
        ("lazy", "lazy_one"),
        ("lazy", "lazy_two"),
        ("import", "importlib"),
        ("dynamic", "dynamic.one"),
        ("dynamic", "dynamic.two"),
        ("string", "dynamic.one"),
        ("string", "dynamic.two"),
        ("string", "strings.one"),
    }


def test_relative_imports_keep_level_and_names() -> None:
    assert scan_python(b"from ..pkg import a, b").refs == (Ref("import", "pkg", 2, ("a", "b")),)
    assert scan_python(b"from . import a").refs == (Ref("import", "", 1, ("a",)),)


def test_imports_for_type_checkers_do_not_run() -> None:
    source = """
import typing
if typing.TYPE_CHECKING:
    import never
else:
    import always
"""
    assert refs(source) == {("import", "typing"), ("import", "always")}


def test_docstrings_are_no_references() -> None:
    assert refs('"""configs/a.toml"""\ndef f():\n    "b.toml"\n') == set()


@pytest.mark.parametrize("source", [b"def f(:\n", b"\x00", b"x = '" + b"\xff" + b"'", b"(" * 5000])
def test_source_that_does_not_parse_keeps_no_references_and_says_why(source: bytes) -> None:
    scan = scan_python(source)
    assert scan.refs == ()
    assert "parse" in scan.error


def test_a_deep_expression_does_not_exhaust_the_walk() -> None:
    scan = scan_python(("import a\nx = " + "+".join(["1"] * 900) + "\n").encode())
    assert scan.refs == (Ref("import", "a"),)


def test_a_huge_file_is_data() -> None:
    assert scan_python(b"#" * (MAX_BYTES + 1)).error
    assert scan_text(b"a.b " * MAX_BYTES).refs == ()


def test_words_of_a_configuration_file() -> None:
    scan = scan_text(b"# comment.toml\nmodel = pkg.models.mlp\npath: data/small.csv\nrate = 0.5\n")
    named = {kind: {ref.target for ref in scan.refs if ref.kind == kind} for kind in ("string", "word")}
    assert named == {"string": {"pkg.models.mlp", "data/small.csv"}, "word": {"model", "path", "rate"}}


def test_a_binary_file_has_no_words() -> None:
    assert scan_text(b"a.b\0c.d").refs == ()

"""What kind of file a path is, from its name alone."""

from __future__ import annotations

import posixpath
from typing import Literal

from tithe.data.environment_files import is_dependencies

PathKind = Literal["code", "config", "dependencies", "tests", "docs", "other"]

_CONFIG = (".toml", ".yaml", ".yml", ".json", ".cfg", ".ini", ".gin", ".conf", ".env")
_CODE = (".py", ".pyi", ".pyx", ".pxd", ".c", ".cc", ".cpp", ".cu", ".h", ".hpp", ".rs", ".go", ".sh")
_DOCS = (".md", ".rst", ".txt", ".html", ".svg", ".png", ".ipynb")


def kind_of(path: str) -> PathKind:
    """The kind of `path`; a requirements file is dependencies even if its suffix is that of a text."""
    name = posixpath.basename(path)
    folders = path.split("/")[:-1]
    if is_dependencies(path):
        return "dependencies"
    if (
        any(folder in {"tests", "test"} for folder in folders)
        or name.startswith("test_")
        or name == "conftest.py"
    ):
        return "tests"
    if any(folder in {"docs", "doc", ".github"} for folder in folders) or name in {"LICENSE", "CODEOWNERS"}:
        return "docs"
    if name.endswith(_CODE):
        return "code"
    if name.endswith(_CONFIG):
        return "config"
    if name.endswith(_DOCS):
        return "docs"
    return "other"

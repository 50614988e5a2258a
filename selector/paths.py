"""What kind of file a path is, from its name alone."""

from __future__ import annotations

import posixpath
import re
from typing import Literal

PathKind = Literal["code", "config", "dependencies", "tests", "docs", "other"]

_DEPENDENCIES = re.compile(
    r"(requirements|constraints)[\w.-]*\.(txt|in)|pyproject\.toml|setup\.(py|cfg)|environment[\w.-]*\.ya?ml"
    r"|Pipfile|(poetry|pdm|uv|pixi|conda|Pipfile)[\w.-]*\.lock|Dockerfile[\w.-]*|[\w.-]*\.lock"
)
_CONFIG = (".toml", ".yaml", ".yml", ".json", ".cfg", ".ini", ".gin", ".conf", ".env")
_CODE = (".py", ".pyi", ".pyx", ".pxd", ".c", ".cc", ".cpp", ".cu", ".h", ".hpp", ".rs", ".go", ".sh")
_DOCS = (".md", ".rst", ".txt", ".html", ".svg", ".png", ".ipynb")


def kind_of(path: str) -> PathKind:
    """The kind of `path`; a requirements file is dependencies even if its suffix is that of a text."""
    name = posixpath.basename(path)
    folders = path.split("/")[:-1]
    if _DEPENDENCIES.fullmatch(name) or (folders and folders[-1] == "requirements" and name.endswith(".txt")):
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

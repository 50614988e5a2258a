"""What one file refers to, read from its text alone.

A scan sees a blob and nothing else: no path, no interpreter state, no other file. That is what lets its
result be kept under the blob's id for ever, and lets any revision be scanned without a checkout. Turning a
reference into a file of one revision is `tithe.data.graph`'s work.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Kind = Literal["import", "lazy", "dynamic", "string", "word"]
"""How a file refers to another: on import, inside a function, by `importlib`, by naming it in a string, or by a
bare word of a configuration that a registry may turn into the name of a module."""

MAX_BYTES = 1_000_000
"""Larger files are data, not code: they keep no references."""
MAX_STRINGS = 2_000
MIN_WORD = 3
"""Letters of a bare word below which it is taken to name nothing."""

_NAMELIKE = re.compile(r"[A-Za-z0-9_./\\:-]{2,200}")
_FILE_OPTION = re.compile(r"(?:^|\s)(?:-r|-c|--requirement|--constraint)[ =]*([^\s\"',;\]]{1,300})")
_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{1,199}")


@dataclass(frozen=True)
class Ref:
    """A reference to a module or file, not yet resolved.

    `target` is a dotted module name (for `level` > 0, relative to the package of the file that has it), or
    the text of a string that may name a module, a file or a folder. `names` are what `from … import` asks
    of it, each of which may be a module of its own.
    """

    kind: Kind
    target: str
    level: int = 0
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Scan:
    """The references of one blob, in order of appearance; `error` says why it could not be parsed."""

    refs: tuple[Ref, ...] = ()
    error: str = ""


def scan_python(source: bytes) -> Scan:
    """References of a Python module. Source that does not parse yields none, with the reason.

    Imports under `if TYPE_CHECKING:` are left out: they never run.
    """
    if len(source) > MAX_BYTES:
        return Scan(error=f"larger than {MAX_BYTES} bytes")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a user's invalid escape is not ours to report
            tree = ast.parse(source)
        return Scan(refs=tuple(dict.fromkeys(_python_refs(tree))))
    except SyntaxError as error:
        return Scan(error=f"does not parse: {error.msg} (line {error.lineno})")
    except (ValueError, RecursionError, MemoryError) as error:
        return Scan(error=f"does not parse: {type(error).__name__}")


def scan_text(source: bytes) -> Scan:
    """Words of a configuration file that may name another file or a module."""
    if len(source) > MAX_BYTES or b"\0" in source[:8192]:
        return Scan()
    found: dict[Ref, None] = {}
    for line in source.decode("utf-8", "replace").splitlines():
        if line.lstrip().startswith(("#", ";", "//")):
            continue
        for match in _WORD.finditer(line):
            word = match.group().rstrip(".,/-")
            if ("." in word or "/" in word) and not _is_number(word):
                found[Ref("string", word)] = None
            elif len(word) >= MIN_WORD and word.isidentifier():
                found[Ref("word", word)] = None
            if len(found) >= MAX_STRINGS:
                return Scan(refs=tuple(found))
    return Scan(refs=tuple(found))


def scan_requirements(source: bytes) -> Scan:
    """Files that a requirements file, an environment or an image takes in: `-r base.txt`, `-c pins.txt`."""
    if len(source) > MAX_BYTES or b"\0" in source[:8192]:
        return Scan()
    found: dict[Ref, None] = {}
    for line in source.decode("utf-8", "replace").splitlines():
        if not line.lstrip().startswith("#"):
            found.update((Ref("string", name), None) for name in _FILE_OPTION.findall(line))
    return Scan(refs=tuple(found)[:MAX_STRINGS])


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _python_refs(tree: ast.Module) -> Iterator[Ref]:
    """Walks with a stack of its own (deep expressions must not exhaust Python's), in source order."""
    stack: list[tuple[ast.AST, bool]] = [(tree, False)]
    strings = 0
    while stack:
        node, lazy = stack.pop()
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Ref("lazy" if lazy else "import", alias.name)
        elif isinstance(node, ast.ImportFrom):
            names = tuple(alias.name for alias in node.names)
            yield Ref("lazy" if lazy else "import", node.module or "", node.level, names)
        elif isinstance(node, ast.Call) and (target := _dynamic_target(node)):
            yield Ref("dynamic", target.lstrip("."), len(target) - len(target.lstrip(".")))
        elif (text := _string(node)) and strings < MAX_STRINGS:
            strings += 1
            yield Ref("string", text)
        if isinstance(node, ast.If) and _is_type_checking(node.test):
            children: list[ast.AST] = list(node.orelse)
        else:
            children = list(ast.iter_child_nodes(node))
            if _has_docstring(node):
                children = [child for child in children if child is not node.body[0]]  # type: ignore[attr-defined]
        inner = lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        stack.extend((child, inner) for child in reversed(children))


def _string(node: ast.AST) -> str:
    """The literal, if it may be a name; otherwise empty."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and _NAMELIKE.fullmatch(node.value):
        return node.value
    return ""


def _has_docstring(node: ast.AST) -> bool:
    if (
        not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        or not node.body
    ):
        return False
    first = node.body[0]
    return isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)


def _dynamic_target(call: ast.Call) -> str:
    """The literal module name given to `import_module` or `__import__`; empty for any other call."""
    func = call.func
    name = func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""
    if name not in {"import_module", "__import__"} or not call.args:
        return ""
    first = call.args[0]
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""


def _is_type_checking(test: ast.expr) -> bool:
    name = test.attr if isinstance(test, ast.Attribute) else test.id if isinstance(test, ast.Name) else ""
    return name == "TYPE_CHECKING"

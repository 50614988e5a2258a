"""Plants slow-downs of known size into a checkout, to find out what a measurement sees.

What a slow-down is and where it goes is drawn from a seed before anything is measured, and registered by a hash:
whoever tries a tool on a hundred of them cannot pick the ones that it finds. Planting is text editing (the file
keeps its other lines as they are), and taking back restores the bytes.

Sizes are seconds: of a call, or of an item of the call's largest argument. A job calls a function as often as it
likes, so a slow-down that is to cost a share of a run is planted as a counter first (`counting`), and scaled by
what that counted (`scaled`).
"""

from __future__ import annotations

import ast
import hashlib
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from tithe.data.codec import to_json
from tithe.data.errors import UsageError
from tithe.data.text import safe_line

Kind = Literal["busy", "blocking", "allocating", "importing", "counting"]
"""Computing; waiting; taking and touching memory; importing a module of that cost; only counting calls."""
Growth = Literal["call", "size"]
Place = Literal["function", "import", "config"]
KINDS: tuple[Kind, ...] = ("busy", "blocking", "allocating", "importing")
COUNT_METRIC = "injected_calls"
"""What a planted counter reports: calls, or items where it grows with size."""
BYTES_PER_SECOND = 1 << 30
"""What `allocating` takes for a second of its size: about what touching memory for the first time manages."""
CONFIG_SUFFIXES = (".json", ".yaml", ".yml", ".toml", ".ini", ".cfg")
_NUMBER = re.compile(r"""^(\s*["']?([\w.-]+)["']?\s*[:=]\s*)(\d+(?:\.\d+)?)(\s*,?\s*(?:#.*)?)$""")
_MARK = "_tithe_injected"


@dataclass(frozen=True)
class Site:
    """Where a slow-down can be planted: a function's body, a module's own code, a number in a configuration."""

    place: Place
    path: str
    name: str
    """Qualified name of the function; of a configuration, the key. Empty for a module."""
    line: int
    """The line (from 1) before which code goes in, or on which the number stands."""


@dataclass(frozen=True)
class Injection:
    """One slow-down."""

    site: Site
    kind: Kind
    amount: float
    """Seconds a call, or an item; for a configuration the share by which its number grows."""
    growth: Growth = "call"


def sites(files: Mapping[str, bytes]) -> tuple[Site, ...]:
    """All places of these files (path to content), in order of path and line. What cannot be parsed has none."""
    found: list[Site] = []
    for path, content in sorted(files.items()):
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError:
            continue
        if path.endswith(".py"):
            found += _code_sites(path, text)
        elif path.endswith(CONFIG_SUFFIXES):
            found += [
                Site("config", path, match[2], number)
                for number, line in enumerate(text.splitlines(), 1)
                if (match := _NUMBER.match(line)) and float(match[3]) > 0
            ]
    return tuple(found)


def draw(
    choices: Iterable[Site],
    *,
    seed: int,
    count: int,
    amounts: Sequence[float],
    kinds: Sequence[Kind] = KINDS,
    growths: Sequence[Growth] = ("call",),
) -> tuple[Injection, ...]:
    """`count` slow-downs: sites without repetition as long as there are any, the rest of each uniformly.

    The same arguments draw the same; `registration` is to be noted before anything is measured.

    Raises:
        ValueError: there is no site, or nothing to draw from.
    """
    pool = sorted(choices, key=lambda site: (site.path, site.line, site.place, site.name))
    if not (pool and amounts and kinds and growths):
        raise ValueError("there is nothing to draw from")
    rng = random.Random(seed)  # noqa: S311 - a draw, no secret
    order: list[Site] = []
    while len(order) < count:
        order += rng.sample(pool, len(pool))
    return tuple(
        Injection(
            site,
            rng.choice(kinds) if site.place != "config" else "busy",
            rng.choice(amounts),
            rng.choice(growths) if site.place == "function" else "call",
        )
        for site in order[:count]
    )


def registration(injections: Sequence[Injection]) -> str:
    """A hash of what is going to be planted, to be published beforehand."""
    return hashlib.sha256(to_json(list(injections)).encode()).hexdigest()


def counting(injection: Injection) -> Injection:
    """The same place, with nothing planted but a counter of the metric `COUNT_METRIC`."""
    return replace(injection, kind="counting", amount=0.0)


def scaled(injection: Injection, seconds: float, counted: float) -> Injection:
    """The slow-down that costs a whole run `seconds`, where the counter saw so many calls or items."""
    return replace(injection, amount=seconds / max(counted, 1.0))


def edit(files: Mapping[str, bytes], injection: Injection) -> dict[str, bytes]:
    """The files that change, with their new content.

    Raises:
        UsageError: the site is not in these files any more.
    """
    site = injection.site
    content = files.get(site.path)
    lines = content.decode("utf-8").splitlines(keepends=True) if content is not None else []
    if not any(known == site for known in sites({site.path: content or b""})):
        raise UsageError(
            f"has no {site.place} {safe_line(site.name) or 'code'} on line {site.line}",
            where=safe_line(site.path),
            mend="draw the sites from the revision that they are planted into",
        )
    if site.place == "config":
        line = lines[site.line - 1]
        text = line.rstrip("\r\n")
        grown = _NUMBER.sub(lambda found: f"{found[1]}{_grown(found[3], injection.amount)}{found[4]}", text)
        lines[site.line - 1] = grown + line[len(text) :]
        return {site.path: "".join(lines).encode()}
    code = _code(injection)
    after = lines[site.line - 1] if site.line <= len(lines) else ""
    indent = re.match(r"[ \t]*", after)[0] if site.place == "function" else ""  # type: ignore[index]  # always matches
    end = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
    if site.line - 1 > 0 and not lines[site.line - 2].endswith(("\n", "\r")):
        lines[site.line - 2] += end
    planted = "".join(f"{indent}{line}{end}" for line in code)
    changed = {site.path: "".join([*lines[: site.line - 1], planted, *lines[site.line - 1 :]]).encode()}
    if injection.kind == "importing":
        changed[_module_path(injection)] = _slow_module(injection.amount).encode()
    return changed


@contextmanager
def planted(checkout: Path, injection: Injection) -> Iterator[tuple[str, ...]]:
    """The slow-down in the work tree at `checkout` while this lasts; the paths that it changed.

    Raises:
        UsageError: the site is not there, or what was planted was edited meanwhile and is left as it is.
    """
    path = checkout / injection.site.path
    before = path.read_bytes()
    made = edit({injection.site.path: before}, injection)
    for name, content in made.items():
        (checkout / name).write_bytes(content)
    try:
        yield tuple(sorted(made))
    finally:
        edited = [name for name, content in made.items() if _read(checkout / name) != content]
        if edited:
            raise UsageError(
                "was changed while a slow-down was planted in it",
                where=safe_line(edited[0]),
                mend="take the lines with _tithe_injected out by hand",
            )
        for name in made:
            if name == injection.site.path:
                path.write_bytes(before)
            else:
                (checkout / name).unlink()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _code_sites(path: str, text: str) -> Iterator[Site]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return
    start = _first(tree.body)
    if start is not None:
        yield Site("import", path, "", start)
    # A stack and not recursion: generated code may be nested deeply.
    stack: list[tuple[ast.AST, str]] = [(tree, "")]
    found = []
    while stack:
        node, prefix = stack.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = f"{prefix}{child.name}"
                if not isinstance(child, ast.ClassDef):
                    line = _first(child.body)
                    if line is not None and line > child.lineno and not _shares_line(child.body, line):
                        found.append(Site("function", path, name, line))
                stack.append((child, f"{name}."))
            else:
                stack.append((child, prefix))
    yield from sorted(found, key=lambda site: (site.line, site.name))


def _first(body: Sequence[ast.stmt]) -> int | None:
    """The line that a statement can be put before: after docstring and __future__ imports."""
    for at, node in enumerate(body):
        if at == 0 and isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str):
            continue
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            continue
        decorators = getattr(node, "decorator_list", [])
        line = min([node.lineno, *(decorator.lineno for decorator in decorators)])
        return None if _shares_line(body[:at], line, ends=True) else line
    return None


def _shares_line(body: Sequence[ast.stmt], line: int, *, ends: bool = False) -> bool:
    """Whether a statement before the line reaches into it (`def f(): "doc"; x = 1`)."""
    return ends and any((node.end_lineno or node.lineno) >= line for node in body)


def _code(injection: Injection) -> list[str]:
    clock = f"{_MARK} = __import__('time')"
    amount = f"{injection.amount!r}"
    if injection.growth == "size":
        # Before any other local is there: these are the arguments.
        items = "max([len(_a) for _a in list(locals().values()) if hasattr(_a, '__len__')] or [1])"
        amount = f"{injection.amount!r} * {items}"
    if injection.kind == "counting":
        return _counter("1" if injection.growth == "call" else items)
    if injection.kind == "blocking":
        return [f"__import__('time').sleep({amount})"]
    if injection.kind == "busy":
        return [
            f"{_MARK}_s = {amount}",
            clock,
            f"{_MARK}_s += {_MARK}.perf_counter()",
            f"while {_MARK}.perf_counter() < {_MARK}_s: pass",
        ]
    if injection.kind == "allocating":
        return [
            f"{_MARK} = bytearray(int(({amount}) * {BYTES_PER_SECOND}) + 1)",
            f"{_MARK}[::4096] = bytes(len(range(0, len({_MARK}), 4096)))",
        ]
    name = Path(_module_path(injection)).stem
    return [
        f"if {name!r} not in __import__('sys').modules:",
        "    import importlib.util as _u, os as _o, sys as _s",
        f"    _p = _u.spec_from_file_location({name!r}, _o.path.join(_o.path.dirname(__file__), {name + '.py'!r}))",
        f"    _s.modules[{name!r}] = _u.module_from_spec(_p)",
        f"    _p.loader.exec_module(_s.modules[{name!r}])",
    ]


def _counter(step: str) -> list[str]:
    """Kept in the launch's file of metrics from the first call on: a job may end at any moment."""
    return [
        f"{_MARK}_n = {step}",
        f"{_MARK} = globals().setdefault('{_MARK}_state', [0, -1, 0])",
        f"if {_MARK}[1] < 0:",
        "    import os as _o",
        "    _p = _o.environ.get('TITHE_METRICS', _o.devnull)",
        f"    {_MARK}[1] = _o.open(_p, _o.O_RDWR | _o.O_CREAT, 0o600)",
        f"    {_MARK}[2] = _o.lseek({_MARK}[1], 0, 2)",
        f"{_MARK}[0] += {_MARK}_n",
        f"""__import__('os').pwrite({_MARK}[1], b'{{"{COUNT_METRIC}": %15d}}\\n' % {_MARK}[0], {_MARK}[2])""",
    ]


def _module_path(injection: Injection) -> str:
    digest = hashlib.sha256(to_json(injection.site).encode()).hexdigest()[:8]
    return (Path(injection.site.path).parent / f"{_MARK}_{digest}.py").as_posix()


def _slow_module(seconds: float) -> str:
    """A module that is slow to import as modules are, by what it defines, topped up to the second."""
    definitions = "".join(
        f"def f{n}(a, b={n}):\n    return [a, b, {{{n}: str(a)}}]\n\n\n" for n in range(200)
    )
    return (
        f"import time\n\n_until = time.perf_counter() + {seconds!r}\n\n\n{definitions}"
        "while time.perf_counter() < _until:\n    pass\n"
    )


def _grown(number: str, share: float) -> str:
    if "." in number:
        return repr(float(number) * (1 + share))
    return str(max(int(number) + 1, round(int(number) * (1 + share))))

"""Which files stand behind which scenario, on any revision, without a checkout.

The scan is our own: asking an importable tree fails as a whole on one syntax error and cannot look at a past
commit. Every blob is scanned once (`tithe.data.imports`) and its references are resolved against the file
list of the revision, so a history of a thousand commits costs little more than its distinct blobs.

Distance alone says little, since a logging module is two hops from everything. `proximity` multiplies along
the best path an edge weight that falls with the fan-in of the file that it leads to and with the fan-out of
the file that it leaves: what few reach, and what is reached by few steps, is near.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import sys
import tempfile
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from tithe.data.codec import CodecError, from_json, to_json
from tithe.data.entries import entries
from tithe.data.imports import Scan, scan_python, scan_text
from tithe.data.names import SCANNED_SUFFIXES, Names
from tithe.data.plain import open_plain, read_plain
from tithe.data.reach import Edges, relax
from tithe.data.records import Scenario, ScenarioName, Sha

if TYPE_CHECKING:
    from tithe.data.config import Config

VERSION = 2
"""Of the way scans and graphs are made; a new one leaves older cache entries unused."""

MANIFESTS = frozenset({"pyproject.toml", "setup.cfg", "tox.ini", "tithe.toml", "package.json"})
"""Files that list what a repository holds: as edges they would lead from anything to everything."""

KEPT_GRAPHS = 400


class Files(Protocol):
    """What is asked of a repository; `tithe.data.git.GitRepo` is one."""

    def files(self, sha: Sha) -> dict[str, str]: ...

    def blobs(self, ids: Iterable[str]) -> Iterator[tuple[str, bytes]]: ...


@dataclass(frozen=True, eq=False)
class ScenarioGraph:
    """How far each scenario is from each file that any scenario reaches.

    Attributes:
        distance: (scenarios, files) float32, hops from the scenario's nearest entry (a file that its
            command, its `files` or a rule names: 0); inf where it is not reached.
        proximity: (scenarios, files) float32 in [0, 1], 1 for an entry, 0 where it is not reached.
    """

    scenarios: tuple[ScenarioName, ...]
    files: tuple[str, ...]
    distance: NDArray[np.float32]
    proximity: NDArray[np.float32]
    warnings: tuple[str, ...] = ()

    @cached_property
    def column(self) -> Mapping[str, int]:
        """File to its column."""
        return {path: index for index, path in enumerate(self.files)}

    @cached_property
    def row(self) -> Mapping[ScenarioName, int]:
        """Scenario to its row."""
        return {name: index for index, name in enumerate(self.scenarios)}

    @cached_property
    def folders(self) -> Mapping[str, NDArray[np.intp]]:
        """Folder to the columns of the files directly in it."""
        found: dict[str, list[int]] = defaultdict(list)
        for index, path in enumerate(self.files):
            found[posixpath.dirname(path)].append(index)
        return {folder: np.array(columns, dtype=np.intp) for folder, columns in found.items()}


def empty(scenarios: Sequence[Scenario], *warnings: str) -> ScenarioGraph:
    """The graph of a revision about which nothing is known."""
    none = np.zeros((len(scenarios), 0), dtype=np.float32)
    return ScenarioGraph(tuple(s.name for s in scenarios), (), none, none.copy(), warnings)


def build(
    repo: Files, sha: Sha, config: Config, cache: Path | None = None, *, scans: bytes = b""
) -> ScenarioGraph:
    """The graph of revision `sha`; see `GraphBuilder` for many revisions.

    Args:
        cache: Folder for scans and graphs, which are keyed by content; None keeps nothing.
        scans: What `scans_of` gave, perhaps for another revision: its files are not read again.
    """
    return GraphBuilder(repo, config, cache, scans=scans).build(sha)


def scans_of(repo: Files, sha: Sha, config: Config, cache: Path | None = None) -> bytes:
    """What was read in the files of `sha`, one line of JSON each, for machines that have not read them."""
    return GraphBuilder(repo, config, cache).scans(sha)


class GraphBuilder:
    """Graphs of many revisions, each blob scanned once."""

    def __init__(self, repo: Files, config: Config, cache: Path | None = None, *, scans: bytes = b"") -> None:
        self._repo = repo
        self._config = config
        self._cache = cache / "graph" if cache else None
        self._given = scans
        self._scans: dict[str, Scan] | None = None
        self._latest: tuple[str, ScenarioGraph] | None = None

    def build(self, sha: Sha) -> ScenarioGraph:
        """The graph of `sha`. A file that does not parse keeps no edges and is a warning."""
        files = self._repo.files(sha)
        key = _graph_key(files, self._config)
        if self._latest and self._latest[0] == key:
            return self._latest[1]
        graph = self._load(key)
        if graph is None:
            graph = self._make(files)
            self._save(key, graph)
        self._latest = (key, graph)
        return graph

    def scans(self, sha: Sha) -> bytes:
        """See `scans_of`."""
        files = self._repo.files(sha)
        scans = self._scan(files)
        lines = {_scan_key(path, files[path]): scan for path, scan in scans.items() if not scan.error}
        return "".join(to_json(_Line(key, lines[key])) + "\n" for key in sorted(lines)).encode()

    def _make(self, files: Mapping[str, str]) -> ScenarioGraph:
        scans = self._scan(files)
        names = Names(files, self._config, self._links(files))
        warnings = [f"{path}: {scans[path].error}" for path in sorted(scans) if scans[path].error]
        edges = Edges()
        for path, scan in scans.items():
            for ref in scan.refs:
                for kind, target in names.resolve(ref, path):
                    edges.add(path, target, kind)
        scenarios = self._config.scenarios
        starts = [entries(scenario, names, self._config) for scenario in scenarios]
        for scenario, entry in zip(scenarios, starts, strict=True):
            if not entry:
                warnings.append(f"scenario {scenario.name}: no file of this revision is named by its command")
        reach = relax(starts, edges)
        named = tuple(scenario.name for scenario in scenarios)
        return ScenarioGraph(named, reach.files, reach.distance, reach.proximity, tuple(warnings))

    def _links(self, files: Mapping[str, str]) -> dict[str, str]:
        """Symbolic links to folders that stand in a package, read from their blobs: link to folder."""
        folders = {posixpath.dirname(path) for path in files}
        suspects = {
            path
            for path in files
            if "." not in posixpath.basename(path)
            and posixpath.join(posixpath.dirname(path), "__init__.py") in files
        }
        targets = dict(self._repo.blobs(sorted({files[path] for path in suspects}))) if suspects else {}
        links = {}
        for path in sorted(suspects):
            target = targets.get(files[path], b"")[:500].decode("utf-8", "replace")
            folder = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
            if target and "\n" not in target and folder in folders:
                links[path] = folder
        return links

    def _scan(self, files: Mapping[str, str]) -> dict[str, Scan]:
        """Path to scan, for every file that may refer to others."""
        if self._scans is None:
            self._scans = {**_read_scans(self._given), **_load_scans(self._cache)}
        wanted = {path: _scan_key(path, blob) for path, blob in files.items() if _is_scanned(path)}
        missing: dict[str, list[str]] = defaultdict(list)
        for path in sorted(wanted):
            if wanted[path] not in self._scans:
                missing[files[path]].append(path)
        fresh: dict[str, Scan] = {}
        if missing:
            for blob, content in self._repo.blobs(sorted(missing)):
                for path in missing[blob]:
                    fresh[wanted[path]] = scan_python(content) if path.endswith(".py") else scan_text(content)
            self._scans.update(fresh)
            _append_scans(self._cache, fresh)
        absent = Scan(error="its content is not in this clone")
        return {path: self._scans.get(key, absent) for path, key in wanted.items()}

    def _load(self, key: str) -> ScenarioGraph | None:
        if self._cache is None:
            return None
        try:
            # Opened here, because numpy leaves a damaged file open.
            with (
                os.fdopen(open_plain(self._cache / f"{key}.npz"), "rb") as handle,
                np.load(handle, allow_pickle=False) as stored,
            ):
                return ScenarioGraph(
                    tuple(ScenarioName(str(name)) for name in stored["scenarios"]),
                    tuple(str(path) for path in stored["files"]),
                    stored["distance"],
                    stored["proximity"],
                    tuple(str(warning) for warning in stored["warnings"]),
                )
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return None  # absent or damaged: it is made again

    def _save(self, key: str, graph: ScenarioGraph) -> None:
        if self._cache is None or self._given:
            return  # a machine that had to be given the scans is there for one graph
        try:
            self._cache.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self._cache, suffix=".tmp", delete=False) as handle:
                np.savez_compressed(
                    handle,
                    scenarios=np.array(graph.scenarios, dtype=np.str_),
                    files=np.array(graph.files, dtype=np.str_),
                    distance=graph.distance,
                    proximity=graph.proximity,
                    warnings=np.array(graph.warnings, dtype=np.str_),
                )
            Path(handle.name).replace(self._cache / f"{key}.npz")
            kept = sorted(self._cache.glob("*.npz"), key=lambda path: path.stat().st_mtime, reverse=True)
            for old in kept[KEPT_GRAPHS:]:
                old.unlink(missing_ok=True)
        except OSError:
            return  # a cache that cannot be written is no reason to fail


def _graph_key(files: Mapping[str, str], config: Config) -> str:
    """Everything that the graph follows from: the tree and the parts of the configuration that it reads."""
    digest = hashlib.sha256(f"{VERSION} {sys.version_info[:2]}\0".encode())
    for path in sorted(files):
        digest.update(f"{path}\0{files[path]}\0".encode("utf-8", "surrogateescape"))
    rules = [[list(rule.files), list(rule.scenarios)] for rule in config.rules]
    digest.update(to_json([list(config.scenarios), config.pythonpath, rules]).encode())
    return digest.hexdigest()[:32]


def _is_scanned(path: str) -> bool:
    if path.endswith(SCANNED_SUFFIXES):
        return posixpath.basename(path) not in MANIFESTS and not path.startswith(".")
    return path.endswith(".py")


def _scan_key(path: str, blob: str) -> str:
    return f"{blob}:{'py' if path.endswith('.py') else 'text'}"


@dataclass(frozen=True)
class _Line:
    key: str
    scan: Scan


SCANS_BYTES = 2**30


def _scans_path(cache: Path) -> Path:
    # What parses depends on the interpreter's grammar.
    return cache / f"scans-{VERSION}-{sys.version_info[0]}.{sys.version_info[1]}.jsonl"


def _load_scans(cache: Path | None) -> dict[str, Scan]:
    if cache is None:
        return {}
    try:
        return _read_scans(read_plain(_scans_path(cache), SCANS_BYTES))
    except OSError:
        return {}


def _read_scans(raw: bytes) -> dict[str, Scan]:
    scans = {}
    for text in raw.splitlines():
        try:
            line = from_json(text, _Line)
        except CodecError:
            continue  # torn by a crash: scanned again
        scans[line.key] = line.scan
    return scans


def _append_scans(cache: Path | None, fresh: Mapping[str, Scan]) -> None:
    if cache is None or not fresh:
        return
    # The first newline ends a line that a crash may have torn.
    text = "\n" + "".join(to_json(_Line(key, fresh[key])) + "\n" for key in sorted(fresh))
    try:
        cache.mkdir(parents=True, exist_ok=True)
        handle = os.open(
            _scans_path(cache), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644
        )
        try:
            os.write(handle, text.encode())
        finally:
            os.close(handle)
    except OSError:
        return

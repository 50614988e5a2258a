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
import re
import sys
import tempfile
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tithe.data import graph_files, scan_cache
from tithe.data import words as source_words
from tithe.data.codec import to_json
from tithe.data.entries import Entries, entries
from tithe.data.environment_files import is_dependencies, with_environment
from tithe.data.imports import Scan, scan_python, scan_requirements, scan_text
from tithe.data.names import SCANNED_SUFFIXES, Names, clean
from tithe.data.plain import open_plain
from tithe.data.reach import KIND_WEIGHT, Edges, relax
from tithe.data.records import Change, Scenario, ScenarioName, Sha
from tithe.data.scan_cache import VERSION, Way, scan_key
from tithe.data.text import safe_line
from tithe.data.words import Parts, Words, of_scenario, parts_of

if TYPE_CHECKING:
    from tithe.data.config import Config
    from tithe.data.uses import Uses

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
    uses: Uses | None = None
    """What functions take of watched launches; None where none was watched."""
    words: Words | None = None
    """Of the source that each scenario runs; None where nothing was read."""

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


@dataclass(frozen=True, eq=False)
class Dependencies:
    """What a revision holds, before any path is followed.

    Attributes:
        entries: Of each scenario, in the order of `scenarios`.
        edges: (source, target, kind), one between any two files, in order.
        files: All paths of the revision, in order.
    """

    scenarios: tuple[ScenarioName, ...]
    entries: tuple[Entries, ...]
    edges: tuple[tuple[str, str, str], ...]
    files: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def empty(scenarios: Sequence[Scenario], *warnings: str) -> ScenarioGraph:
    """The graph of a revision about which nothing is known."""
    none = np.zeros((len(scenarios), 0), dtype=np.float32)
    return ScenarioGraph(tuple(s.name for s in scenarios), (), none, none.copy(), warnings)


def gone(change: Change, graph: ScenarioGraph) -> tuple[str, ...]:
    """Files that a change took away or renamed, as far as its own graph has none of that name."""
    lost = [edit for edit in change.files if edit.old_path or (edit.deleted and not edit.added)]
    paths = dict.fromkeys(edit.old_path or edit.path for edit in lost)
    return tuple(path for path in paths if path not in graph.column)


def with_gone(graph: ScenarioGraph, before: ScenarioGraph, paths: Sequence[str]) -> ScenarioGraph:
    """The graph with those files as the revision before has them: what is deleted is reached by nobody any more,
    and those who reached it are the ones that it can break."""
    paths = [path for path in paths if path in before.column]
    if not paths or graph.scenarios != before.scenarios:
        return graph
    columns = [before.column[path] for path in paths]
    return replace(
        graph,
        files=(*graph.files, *paths),
        distance=np.hstack([graph.distance, before.distance[:, columns]]),
        proximity=np.hstack([graph.proximity, before.proximity[:, columns]]),
    )


def build(
    repo: Files,
    sha: Sha,
    config: Config,
    cache: Path | None = None,
    *,
    scans: bytes = b"",
    words: Words | None = None,
) -> ScenarioGraph:
    """The graph of revision `sha`; see `GraphBuilder` for many revisions.

    Args:
        cache: Folder for scans and graphs, which are keyed by content; None keeps nothing.
        scans: What `GraphBuilder.scans` gave, perhaps for another revision: its files are not read again.
        words: Those of a graph of another revision: what a scenario starts with is not read again.
    """
    return GraphBuilder(repo, config, cache, scans=scans, words=words).build(sha)


class GraphBuilder:
    """Graphs of many revisions, each blob scanned once."""

    def __init__(
        self,
        repo: Files,
        config: Config,
        cache: Path | None = None,
        *,
        scans: bytes = b"",
        words: Words | None = None,
    ) -> None:
        self._repo = repo
        self._config = config
        self._cache = cache / "graph" if cache else None
        self._given = scans
        self._given_words = words
        self._scans: dict[str, Scan] | None = None
        self._imported: dict[str, graph_files.Imported] = {}
        self._parts: dict[str, Parts] = {}
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
        """What was read in the files of `sha`, one line of JSON each, for machines that have not read them."""
        files = self._repo.files(sha)
        found = self._scan(files)
        return scan_cache.dump({_key(path, files): scan for path, scan in found.items() if not scan.error})

    def dependencies(self, sha: Sha) -> Dependencies:
        """What the files of `sha` refer to, before any path is followed. Not cached; what was scanned is."""
        return self._dependencies(self._repo.files(sha))

    def _dependencies(self, files: Mapping[str, str]) -> Dependencies:
        names = self._names(files)
        return self._follow(files, self._scan(files), names, self._entries(names))

    def _names(self, files: Mapping[str, str]) -> Names:
        return Names(files, self._config, self._links(files))

    def _follow(
        self, files: Mapping[str, str], found: Mapping[str, Scan], names: Names, starts: tuple[Entries, ...]
    ) -> Dependencies:
        warnings = [f"{path}: {found[path].error}" for path in sorted(found) if found[path].error]
        edges = Edges()
        for path, scan in found.items():
            for ref in scan.refs:
                for kind, target in names.resolve(ref, path):
                    edges.add(path, target, kind)
        for path in self._config.edge_files:
            warnings += self._import(path, files, names, edges)
        scenarios = self._config.scenarios
        for scenario, entry in zip(scenarios, starts, strict=True):
            if not entry:
                warnings.append(f"scenario {scenario.name}: no file of this revision is named by its command")
        starts = with_environment(scenarios, starts, names, self._config)
        named = tuple(scenario.name for scenario in scenarios)
        return Dependencies(named, starts, tuple(edges.items()), tuple(sorted(files)), tuple(warnings))

    def _entries(self, names: Names) -> tuple[Entries, ...]:
        return tuple(entries(scenario, names, self._config) for scenario in self._config.scenarios)

    def _make(self, files: Mapping[str, str]) -> ScenarioGraph:
        names = self._names(files)
        starts = self._entries(names)
        own = [_source(entry, files) for entry in starts]
        most = source_words.cap(len(own))
        key = np.array(
            [
                source_words.key_of(most, scenario.name, scenario.command, *paths.items())
                for scenario, paths in zip(self._config.scenarios, own, strict=True)
            ],
            dtype=np.uint64,
        )
        earlier = self._earlier_words()
        fresh = source_words.found_in(earlier, key) < 0
        wanted = {
            blob for paths, new in zip(own, fresh.tolist(), strict=True) if new for blob in paths.values()
        }
        found = self._follow(files, self._scan(files, wanted), names, starts)
        reach = relax(found.entries, found.edges)
        words = source_words.joined(earlier, self._fresh_words(own, fresh.tolist(), most, key))
        return ScenarioGraph(
            found.scenarios, reach.files, reach.distance, reach.proximity, found.warnings, words=words
        )

    def _earlier_words(self) -> Words:
        """Of the graph before: most scenarios have the same source from one change to the next."""
        if self._latest and self._latest[1].words:
            return self._latest[1].words
        if self._given_words is not None:
            return self._given_words
        for path in self._kept()[:1]:
            found = self._load(path.stem)
            if found is not None and found.words is not None:
                return found.words
        return source_words.none()

    def _fresh_words(
        self, own: Sequence[Mapping[str, str]], fresh: Sequence[bool], most: int, key: NDArray[np.uint64]
    ) -> Words:
        """Of the scenarios that are `fresh`, each from the files in `own` (path to blob) that it starts with."""
        number: dict[object, int] = {}
        documents: list[Mapping[str, int]] = []
        document = [-1] * len(own)
        for at, (scenario, paths) in enumerate(zip(self._config.scenarios, own, strict=True)):
            parts = [self._parts[blob] for blob in paths.values() if blob in self._parts] if fresh[at] else []
            if not parts:
                continue
            named = set(re.findall(r"[A-Za-z_]\w*", " ".join((scenario.name, *scenario.command))))
            known = frozenset(
                named.intersection(piece for part in parts for name in part for piece in name.split("."))
            )
            of = (*paths.items(), known)
            if of not in number:
                number[of] = len(documents)
                total: Counter[str] = Counter()
                for part in parts:
                    total.update(of_scenario(part, known))
                documents.append(source_words.telling(total, most))
            document[at] = number[of]
        return replace(source_words.gathered(documents, document), key=key)

    def _import(self, path: str, files: Mapping[str, str], names: Names, edges: Edges) -> list[str]:
        """Adds the edges of a file that another tool wrote; what there is to say about it."""
        where = clean(path)
        blob = files.get(where)
        if blob is None:
            return [f"{path}: [graph] edges: this revision has no such file"]
        if blob not in self._imported:
            content = dict(self._repo.blobs([blob])).get(blob)
            absent = graph_files.Imported(faults=(": its content is not in this clone",))
            self._imported[blob] = absent if content is None else graph_files.read(content)
        imported = self._imported[blob]
        known: dict[str, str | None] = {}

        def file_of(name: str) -> str | None:
            if name not in known:
                told = (name, imported.names.get(name, ""))
                known[name] = next(
                    (f for n in told if n and (f := names.node(n, posixpath.dirname(where)))), None
                )
            return known[name]

        for source, target, kind in imported.edges:
            if kind == graph_files.ENTRY:
                continue
            start, end = file_of(source), file_of(target)
            if start and end:
                edges.add(start, end, kind if kind in KIND_WEIGHT else "given")
        told = [safe_line(f"{path}:{fault}", limit=300) for fault in imported.faults]
        unknown = sorted(name for name, found in known.items() if found is None)
        if unknown:
            shown = safe_line(unknown[0], limit=80)
            told.append(f"{path}: {len(unknown)} of {len(known)} nodes name no file here, such as {shown}")
        return told

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

    def _scan(self, files: Mapping[str, str], words_of: Iterable[str] = ()) -> dict[str, Scan]:
        """Path to scan, for every file that may refer to others.

        In the same pass over the contents the words of the blobs `words_of` are read, if they are not yet.
        """
        if self._scans is None:
            self._scans = {**scan_cache.parse(self._given), **scan_cache.load(self._cache)}
        wanted = {path: _key(path, files) for path in files if _way(path)}
        missing: dict[str, list[str]] = defaultdict(list)
        for path in sorted(wanted):
            if wanted[path] not in self._scans:
                missing[files[path]].append(path)
        fresh: dict[str, Scan] = {}
        told = {blob for blob in words_of if blob not in self._parts}
        if missing or told:
            for blob, content in self._repo.blobs(sorted({*missing, *told})):
                if blob in told:
                    self._parts[blob] = parts_of(content)
                for path in missing.get(blob, ()):
                    fresh[wanted[path]] = _SCANS[_way(path) or "text"](content)
            self._scans.update(fresh)
            scan_cache.append(self._cache, fresh)
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
                    words=source_words.unpack(
                        {name[6:]: stored[name] for name in stored.files if name.startswith("words_")}
                    ),
                )
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return None  # absent or damaged: it is made again

    def _kept(self) -> list[Path]:
        """The graphs in the cache, the newest first."""
        if self._cache is None:
            return []
        try:
            times = {path: path.stat().st_mtime for path in self._cache.glob("*.npz")}
        except OSError:
            return []  # another process has just removed one
        return sorted(times, key=lambda path: (-times[path], path.name))

    def _save(self, key: str, graph: ScenarioGraph) -> None:
        if self._cache is None or self._given:
            return  # a machine that had to be given the scans is there for one graph
        try:
            self._cache.mkdir(parents=True, exist_ok=True)
            words: dict[str, Any] = source_words.pack(graph.words or source_words.none())
            with tempfile.NamedTemporaryFile(dir=self._cache, suffix=".tmp", delete=False) as handle:
                np.savez_compressed(
                    handle,
                    scenarios=np.array(graph.scenarios, dtype=np.str_),
                    files=np.array(graph.files, dtype=np.str_),
                    distance=graph.distance,
                    proximity=graph.proximity,
                    warnings=np.array(graph.warnings, dtype=np.str_),
                    **{f"words_{name}": column for name, column in words.items()},
                )
            Path(handle.name).replace(self._cache / f"{key}.npz")
            for old in self._kept()[KEPT_GRAPHS:]:
                old.unlink(missing_ok=True)
        except OSError:
            return  # a cache that cannot be written is no reason to fail


def _source(entry: Entries, files: Mapping[str, str]) -> dict[str, str]:
    """The Python files that a scenario starts with, and their blobs."""
    paths = sorted(path for path, (hops, _) in entry.items() if not hops and path.endswith(".py"))
    return {path: files[path] for path in paths if path in files}


def _graph_key(files: Mapping[str, str], config: Config) -> str:
    """Everything that the graph follows from: the tree and the parts of the configuration that it reads."""
    digest = hashlib.sha256(f"{VERSION} {sys.version_info[:2]}\0".encode())
    for path in sorted(files):
        digest.update(f"{path}\0{files[path]}\0".encode("utf-8", "surrogateescape"))
    rules = [[list(rule.files), list(rule.scenarios)] for rule in config.rules]
    parts = [list(config.scenarios), config.pythonpath, rules, list(config.edge_files)]
    parts += [[config.setup], list(config.setup_key)]
    digest.update(to_json(parts).encode())
    return digest.hexdigest()[:32]


_SCANS: Mapping[Way, Callable[[bytes], Scan]] = {
    "py": scan_python,
    "text": scan_text,
    "requirements": scan_requirements,
}


def _way(path: str) -> Way | None:
    """How a file is read for what it refers to; None for those that are nodes without edges."""
    name = posixpath.basename(path)
    if is_dependencies(path):
        # What setup.py imports is run once for the environment, and by no scenario; locks name no files.
        return None if name in MANIFESTS or name.endswith((".py", ".lock", ".cfg")) else "requirements"
    if path.endswith(".py"):
        return "py"
    return "text" if path.endswith(SCANNED_SUFFIXES) and name not in MANIFESTS and path[0] != "." else None


def _key(path: str, files: Mapping[str, str]) -> str:
    return scan_key(_way(path) or "text", files[path])

"""Edges that another tool found, read from a file of the repository: an edge list, GraphML or DOT.

Such a file is as untrusted as any other of a revision: XML may define no entities, no file is larger than
`MAX_BYTES`, and a fault is told with its line instead of raised. The content tells the format. Names are
whatever the tool calls its nodes; what they mean in a revision is `tithe.data.names`' business.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from xml.parsers import expat

MAX_BYTES = 32 << 20
MAX_EDGES = 1_000_000
MAX_DEPTH = 50
"""Of subgraphs within each other, and of elements of XML."""
ENTRY = "entry"
"""Kind of an edge from a scenario, which our own export writes and no revision has."""

_DOT_HEAD = re.compile(
    r"(?:\s|//[^\n]*\n|/\*(?:[^*]|\*(?!/))*\*/|#[^\n]*\n)*(?:strict\s+)?(?:di)?graph\b[^{\n]*\{", re.I | re.S
)
_DOT_TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?(?:\*/|\Z)|^\#[^\n]*)
    |(?P<edge>->|--)
    |(?P<mark>[{}\[\];,=:])
    |(?P<quoted>"(?:[^"\\]|\\.)*")
    |(?P<html><[^<>]*(?:<[^<>]*>[^<>]*)*>)
    |(?P<plain>-?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?![\w.])|[^\s{}\[\];,=:"<>\-]+(?:-(?![->])[^\s{}\[\];,=:"<>\-]+)*)""",
    re.X | re.S | re.M,
)
_NAMING = ("path", "file", "module", "name", "label")
"""Attributes that may name a node better than its id does, the best first."""


@dataclass(frozen=True)
class Imported:
    """What a file holds: (source, target, kind), the kind as the file says it or empty; faults with their lines.

    `names` has what a node is called beside its id, for tools that number their nodes.
    """

    edges: tuple[tuple[str, str, str], ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    faults: tuple[str, ...] = ()
    """`LINE: what`, or `: what` for the whole file."""


class _FaultError(Exception):
    """Why the rest of a file cannot be read, and in which line that begins."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.line, self.what = line, what


def read(content: bytes) -> Imported:
    """The edges of a file, with one fault at most. What stands before a fault of GraphML or DOT is not kept."""
    if len(content) > MAX_BYTES:
        return Imported(faults=(f": is larger than {MAX_BYTES >> 20} MiB and was not read",))
    text = content.decode("utf-8-sig", "backslashreplace")
    try:
        if text.lstrip().startswith("<"):
            return _graphml(content)
        if _DOT_HEAD.match(text):
            return _Dot(text).read()
        if b"\0" in content:
            return Imported(faults=(": is neither an edge list nor GraphML nor DOT",))
        return _edge_list(text)
    except _FaultError as fault:
        return Imported(faults=(f"{fault.line}: {fault.what}",))


def _check_count(edges: list[tuple[str, str, str]], line: int) -> None:
    if len(edges) > MAX_EDGES:
        raise _FaultError(line, f"has more than {MAX_EDGES} edges")


# Edge lists


def _edge_list(text: str) -> Imported:
    """`source,target[,kind]`, with commas, tabs or blanks; `#` begins a comment, a header is known by its words.

    A line that is none is left out; the fault tells the first of them and how many there are.
    """
    edges: list[tuple[str, str, str]] = []
    wrong: list[int] = []
    begun = False
    for line, row in _rows(text):
        cells = [cell.strip() for cell in row]
        if not any(cells) or cells[0].startswith("#"):
            continue
        if not begun and [cell.lower() for cell in cells[:2]] in _HEADS:
            begun = True
            continue
        begun = True
        if len(cells) < 2 or not cells[0] or not cells[1]:
            wrong.append(line)
            continue
        edges.append((cells[0], cells[1], cells[2] if len(cells) > 2 else ""))
        _check_count(edges, line)
    if not wrong:
        return Imported(tuple(edges))
    more = f" (and {len(wrong) - 1} more such lines)" if len(wrong) > 1 else ""
    return Imported(tuple(edges), faults=(f"{wrong[0]}: names no source and target{more}",))


_HEADS = (["source", "target"], ["from", "to"], ["importer", "imported"])


def _rows(text: str) -> Iterator[tuple[int, list[str]]]:
    lines = (line.strip() for line in text.split("\n"))
    first = next((line for line in lines if line and not line.startswith("#")), "")
    mark = "\t" if "\t" in first else "," if "," in first else ""
    if not mark:
        for number, line in enumerate(text.split("\n"), 1):
            yield number, line.split()
        return
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=mark, strict=True, skipinitialspace=True)
    try:
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        raise _FaultError(reader.line_num, f"cannot be read: {error}") from None


# GraphML


def _graphml(content: bytes) -> Imported:
    """Nodes and edges of GraphML. A document type, and with it every entity, is refused before it is expanded."""
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    reader = _GraphML(parser)
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        raise _FaultError(error.lineno, f"is not well-formed XML: {expat.ErrorString(error.code)}") from None
    except (ValueError, LookupError) as error:  # an encoding that nobody knows
        raise _FaultError(1, f"cannot be read: {error}") from None
    if not reader.is_graphml:
        raise _FaultError(1, "is XML, but not GraphML")
    return Imported(tuple(reader.edges), reader.names())


class _GraphML:
    def __init__(self, parser: expat.XMLParserType) -> None:
        self._parser = parser
        self.is_graphml = False
        self.edges: list[tuple[str, str, str]] = []
        self._keys: dict[str, str] = {}
        self._undirected = False
        self._labels: dict[str, dict[str, str]] = {}
        self._open: list[str] = []
        self._node = ""
        self._edge: tuple[str, str, bool] | None = None
        self._kind = ""
        self._key = ""
        self._text: list[str] = []
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.StartDoctypeDeclHandler = self._refuse
        parser.EntityDeclHandler = self._refuse

    def names(self) -> dict[str, str]:
        found = {}
        for node, told in self._labels.items():
            best = next((told[name] for name in _NAMING if told.get(name)), "")
            if best and best != node:
                found[node] = best
        return found

    def _refuse(self, *_: object) -> None:
        raise _FaultError(self._parser.CurrentLineNumber, "has a document type, which is not read")

    def _start(self, name: str, given: dict[str, str]) -> None:
        tag = name.rpartition(" ")[2]
        self._open.append(tag)
        if len(self._open) > MAX_DEPTH:
            raise _FaultError(self._parser.CurrentLineNumber, f"is nested deeper than {MAX_DEPTH}")
        if tag == "graphml":
            self.is_graphml = True
        elif tag == "key":
            self._keys[given.get("id", "")] = given.get("attr.name", given.get("id", "")).lower()
        elif tag == "graph":
            self._undirected = given.get("edgedefault") == "undirected"
        elif tag == "node":
            self._node = given.get("id", "")
        elif tag == "edge":
            source, target = given.get("source", ""), given.get("target", "")
            if not source or not target:
                raise _FaultError(self._parser.CurrentLineNumber, "has an edge without source or target")
            directed = given.get("directed", "false" if self._undirected else "true") != "false"
            self._edge, self._kind = (source, target, directed), ""
        elif tag == "data":
            self._key, self._text = self._keys.get(given.get("key", ""), ""), []

    def _characters(self, text: str) -> None:
        if self._key and len(self._text) < 1000:
            self._text.append(text)

    def _end(self, _: str) -> None:
        tag = self._open.pop()
        if tag == "data":
            said = "".join(self._text)
            if self._edge is not None and self._key in ("kind", "type"):
                self._kind = said.strip()
            elif self._node and self._edge is None and self._key in _NAMING:
                self._labels.setdefault(self._node, {})[self._key] = said.strip()
            self._key = ""
        elif tag == "edge" and self._edge is not None:
            source, target, directed = self._edge
            self.edges.append((source, target, self._kind))
            if not directed:
                self.edges.append((target, source, self._kind))
            self._edge = None
            _check_count(self.edges, self._parser.CurrentLineNumber)
        elif tag == "node":
            self._node = ""


# DOT


class _Dot:
    """A tolerant reader: statements of edges and nodes, attributes, subgraphs as ends of edges; ports fall away."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._edges: list[tuple[str, str, str]] = []
        self._names: dict[str, str] = {}
        self._kind = ""
        self._token = ("", "")

    def read(self) -> Imported:
        self._next()
        while self._token != ("mark", "{"):  # strict digraph "name"
            if not self._token[0]:
                raise self._fault("has no {")
            self._next()
        self._next()
        self._statements(0)
        return Imported(tuple(self._edges), self._names)

    def _next(self) -> None:
        while True:
            if self._at >= len(self._text):
                self._token = ("", "")
                return
            found = _DOT_TOKEN.match(self._text, self._at)
            if found is None:
                raise self._fault(f"cannot be read from {self._text[self._at : self._at + 20]!r} on")
            self._at = found.end()
            kind = found.lastgroup or ""
            if kind != "skip":
                self._token = (kind, found.group())
                return

    def _fault(self, what: str) -> _FaultError:
        return _FaultError(self._text.count("\n", 0, self._at) + 1, what)

    def _is(self, mark: str) -> bool:
        return self._token == ("mark", mark)

    def _statements(self, depth: int) -> tuple[str, ...]:
        """The statements up to the closing bracket, which is taken; the nodes that they name."""
        if depth > MAX_DEPTH:
            raise self._fault(f"is nested deeper than {MAX_DEPTH}")
        nodes: dict[str, None] = {}
        while not self._is("}"):
            if not self._token[0]:
                raise self._fault("ends before its last }")
            if self._is(";") or self._is(","):
                self._next()
                continue
            nodes.update(dict.fromkeys(self._statement(depth)))
        self._next()
        return tuple(nodes)

    def _statement(self, depth: int) -> tuple[str, ...]:
        plain = self._token[1].lower() if self._token[0] == "plain" else ""
        ends = [self._end(depth)]
        if self._is("="):  # an attribute of the graph
            self._next()
            self._id()
            return ()
        directed = []
        while self._token[0] == "edge":
            directed.append(self._token[1] == "->")
            self._next()
            ends.append(self._end(depth))
        given: dict[str, str] = {}
        while self._is("["):
            given.update(self._attributes())
        if len(ends) == 1 and plain in ("node", "edge", "graph"):
            return ()
        if len(ends) == 1 and len(ends[0]) == 1:
            best = next((given[name] for name in _NAMING if given.get(name)), "")
            if best and best != ends[0][0]:
                self._names[ends[0][0]] = best
        kind = given.get("kind", given.get("type", ""))
        for at, forward in enumerate(directed):
            for source in ends[at]:
                for target in ends[at + 1]:
                    self._edges.append((source, target, kind))
                    if not forward:
                        self._edges.append((target, source, kind))
                    if len(self._edges) > MAX_EDGES:
                        raise self._fault(f"has more than {MAX_EDGES} edges")
        return tuple(node for end in ends for node in end)

    def _end(self, depth: int) -> tuple[str, ...]:
        """A node, or the nodes of a subgraph."""
        if self._token[0] == "plain" and self._token[1].lower() == "subgraph":
            self._next()
            if not self._is("{"):
                self._id()
        if self._is("{"):
            self._next()
            return self._statements(depth + 1)
        name = self._id()
        while self._is(":"):  # a port, a compass point
            self._next()
            self._id()
        return (name,)

    def _id(self) -> str:
        kind, text = self._token
        if kind not in ("plain", "quoted", "html"):
            raise self._fault(f"expected a name and found {text!r}" if text else "ends in a statement")
        self._next()
        if kind != "quoted":
            return text
        # The backslash before a line's end continues the line.
        return re.sub(
            r"\\(.)",
            lambda m: "" if m[1] == "\n" else m[1] if m[1] in '"\\' else m[0],
            text[1:-1],
            flags=re.S,
        )

    def _attributes(self) -> dict[str, str]:
        self._next()
        found: dict[str, str] = {}
        while not self._is("]"):
            if self._is(",") or self._is(";"):
                self._next()
                continue
            name = self._id().lower()
            found[name] = "true"
            if self._is("="):
                self._next()
                found[name] = self._id()
        self._next()
        return found

"""Makes text from outside safe to show: one line, no control characters, bounded.

What a scenario prints, a commit subject or a branch name may carry terminal escapes, pretend to be lines of
their own, or speak to the CI system that reads the log. Whatever came from outside passes through here on its
way to a person.
"""

from __future__ import annotations

import re
import unicodedata

_COMMAND = re.compile(r"##(\w*)\[")
_DROPPED = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def safe_line(text: str, *, limit: int = 200) -> str:
    """`text` on one line of at most `limit` characters: control, format and unassigned ones become spaces.

    `##[` and `##vso[`, which CI systems obey anywhere in a line, are broken up. What is too long loses its
    middle: a message begins with what went wrong and often ends with where.
    """
    if text.isascii() and text.isprintable():
        line = text
    else:
        kept = text if len(text) <= 8 * limit else text[: 4 * limit] + text[-4 * limit :]
        line = "".join(" " if unicodedata.category(char) in _DROPPED else char for char in kept)
    line = _COMMAND.sub(r"# #\1[", " ".join(line.split()))
    if len(line) <= limit:
        return line
    tail = limit // 3
    return line[: limit - 1 - tail] + "…" + line[len(line) - tail :]


def inert_json(document: str) -> str:
    """The same JSON, in which no terminal and no CI system finds anything to obey.

    Characters that are not printable, and the `[` of `##[`, are written as escapes: they stand in strings only,
    so that what is read back is equal.
    """
    if not document.isascii():
        document = "".join(
            char if char == "\n" or unicodedata.category(char) not in _DROPPED else _escaped(char)
            for char in document
        )
    return _COMMAND.sub(r"##\1\\u005b", document)


def _escaped(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))

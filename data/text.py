"""Makes text from outside safe to show: one line, no control characters, bounded.

What a scenario prints, a commit subject or a branch name may carry terminal escapes or pretend to be lines
of their own. Whatever came from outside passes through here on its way to a person.
"""

from __future__ import annotations

import unicodedata

_DROPPED = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def safe_line(text: str, *, limit: int = 200) -> str:
    """`text` on one line of at most `limit` characters: control, format and unassigned ones become spaces.

    What is too long loses its middle: a message begins with what went wrong and often ends with where.
    """
    if text.isascii() and text.isprintable():
        line = text
    else:
        kept = text if len(text) <= 8 * limit else text[: 4 * limit] + text[-4 * limit :]
        line = "".join(" " if unicodedata.category(char) in _DROPPED else char for char in kept)
    line = " ".join(line.split())
    if len(line) <= limit:
        return line
    tail = limit // 3
    return line[: limit - 1 - tail] + "…" + line[len(line) - tail :]

"""Makes text from outside safe to show: one line, no control characters, bounded.

What a scenario prints, a commit subject or a branch name may carry terminal escapes or pretend to be lines
of their own. Whatever came from outside passes through here on its way to a person.
"""

from __future__ import annotations

import unicodedata

_DROPPED = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def safe_line(text: str, *, limit: int = 200) -> str:
    """`text` on one line: control, format and unassigned characters become spaces; cut at `limit` characters."""
    if text.isascii() and text.isprintable():
        line = text
    else:
        kept = text[: 4 * limit]
        line = "".join(" " if unicodedata.category(char) in _DROPPED else char for char in kept)
    line = " ".join(line.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"

"""Text from outside in Markdown: as code, which no renderer takes for a link, a mention, HTML or a table's border.

GitHub looks for `@names`, `#numbers` and addresses in the rendered text, after entities are decoded: escaping
single characters does not keep it from them. It leaves code alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tithe.data.text import safe_line

_PLAIN = re.compile(r"(?:[A-Za-z0-9 ,.;()+−–…=×/'-]|:(?= )|%(?![A-Za-z0-9_]))*")
"""Characters that mean nothing in any dialect between other such characters; no address can be made of them."""

_MEANT = re.compile(
    r"www\.|\b[a-z]{2,}-\d|\b(?=[0-9]*[a-f])[0-9a-f]{7,64}\b|^[-+=]|^\d+[.)](?: |$)", re.IGNORECASE
)
"""Plain characters that mean something all the same: addresses, issues of a tracker, commits, lists, underlinings."""


def code(text: str, limit: int = 200) -> str:
    """`text` as a code span on one line, also within a table's cell."""
    # No dialect agrees with another on how a bar is escaped within code within a table.
    line = safe_line(text, limit=limit).replace("|", "¦")
    if not line:
        return ""
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", line)), default=0))
    pad = " " if line[0] == "`" or line[-1] == "`" else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def inline(text: str, limit: int = 200) -> str:
    """`text` as it is where it holds only letters, digits and plain punctuation; as `code` otherwise."""
    line = safe_line(text, limit=limit)
    if _PLAIN.fullmatch(line) and not _MEANT.search(line):
        return line
    return code(line, limit)


def table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of cells that are Markdown already; numbers and names of ours stay as they are."""
    lines = [headers, ["---"] * len(headers), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def folded(summary: str, body: str) -> str:
    """A part that is closed until it is clicked on; `summary` is text of ours."""
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"

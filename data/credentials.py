"""Takes out of text what may be a secret: user names, passwords and queries of URLs, and values that say they are.

What is shown errs on the side of hiding. A password may hold a slash, an `@` or a quote, a URL may be one in a
chain (`simplecache::http://…`) or none that parses, and a backend may quote any part of it in an error: so
nothing here asks `urlsplit`, and what stands before an `@` is never shown, whichever `@` it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus, unquote, unquote_plus

HIDDEN = "…"

_HEAD = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(?:://+|:/(?=[^/]))|[A-Za-z][A-Za-z0-9+.-]*:(?=[^/]*@)")
_LINK = re.compile(r"::(?=[A-Za-z][A-Za-z0-9+.-]*(?:://|::|$))")
"""Between the URLs of a chain."""
_IN_TEXT = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)(\S*)")
_CLOSING = re.compile(r"[)\]}>'\"’”.,;:!]*$")
_NOT_A_PORT = re.compile(r"(?P<host>[^\[\]:]*):(?!\d*$)")
_NAMED = re.compile(
    r"""(?ix) (?<![A-Za-z0-9])
    ( (?:[A-Za-z0-9]+[_.-])* (?: \w*token | \w*secret | passw(?:or)?d | passphrase | pwd | sig | signature | key
      | \w*credentials? | apikey | accesskey | (?:access|account|secret|api|private)[_-]?key(?:[_-]?id)?
      | authorization | auth ) [\"']? )
    ( \s*=\s* | (?<=[\"'])\s*:\s* | (?<=authorization):\s* )
    ( [\"'] [^\"']* [\"'] | (?:(?:bearer|basic|token)\s+)? [^\s&,;)}\]\"']+ )
    """
)
_SAID = re.compile(r"(?i)\b(passw(?:or)?d|passphrase|secret)(\s*:\s*)\S+")
_SCHEME_OF_HEADER = re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9+/_.~=-]{8,}")
_SEPARATORS = re.compile(r"[\s/@?#:&;=\[\]]+")
_PIECE = 3
_LONG = 4
"""Letters from which on a secret is looked for within words too."""


def shown(url: str) -> str:
    """The URL, or chain of them, without user, password, query and fragment; it need not be one that parses."""
    return "::".join(_shown(part) for part in _LINK.split(url))


def hidden(text: str, secrets: Iterable[str] = ()) -> str:
    """`text` without what may be a secret in it, and without `secrets` in whatever spelling."""
    for secret in sorted({spelt for one in secrets for spelt in _spelt(one)}, key=len, reverse=True):
        found = re.escape(secret)
        text = re.sub(found if len(secret) >= _LONG else rf"(?<!\w){found}(?!\w)", HIDDEN, text)
    text = _IN_TEXT.sub(_hidden_url, text)
    text = _SAID.sub(rf"\1\2{HIDDEN}", _NAMED.sub(rf"\1\2{HIDDEN}", text))
    return _SCHEME_OF_HEADER.sub(rf"\1 {HIDDEN}", text)


def secrets_of(url: str) -> frozenset[str]:
    """What a message about this URL must not hold, also where a backend quotes only a piece of it."""
    return frozenset(found for part in _LINK.split(url) for found in _secrets(part) if found)


def _shown(url: str) -> str:
    head = _HEAD.match(url)
    if head is None:
        return url
    rest = url[head.end() :]
    at = rest.rfind("@")
    query = min((place for mark in "?#" if (place := rest.find(mark)) >= 0), default=len(rest))
    if at < 0:
        rest = rest[:query]
        authority, slash, path = rest.partition("/")
        if odd := _NOT_A_PORT.match(authority):  # a password whose host is missing
            return f"{head[0]}{odd['host']}:{HIDDEN}"
        return f"{head[0]}{authority}{slash}{path}"
    if query < at:  # the `@` of a query, or a password with a `?`: nobody can tell
        return f"{head[0]}{HIDDEN}"
    if "/" not in head[0]:  # user:password@host, which is no URL
        return f"{HIDDEN}@{rest[at + 1 : query]}"
    authority = rest.partition("/")[0]
    # An `@` behind the first slash belongs to the path, or to a password that holds a slash.
    mark = "" if "@" in authority and "@" not in rest[len(authority) :] else f"{HIDDEN}@"
    return f"{head[0]}{mark}{rest[at + 1 : query]}"


def _hidden_url(found: re.Match[str]) -> str:
    closing = _CLOSING.search(found[2])
    end = closing[0] if closing else ""
    return _shown(found[1] + found[2][: len(found[2]) - len(end)]) + end


def _secrets(url: str) -> Iterator[str]:
    head = _HEAD.match(url)
    if head is None:
        return
    rest = url[head.end() :]
    user, at, _ = rest.rpartition("@")
    if at:
        name, colon, password = user.partition(":")
        yield user
        yield password if colon else name
        # An error quotes what a parser took for the host, the port or the path of a URL with such a password.
        yield from (piece for piece in _SEPARATORS.split(password) if len(piece) >= _PIECE)
    elif odd := _NOT_A_PORT.match(rest.partition("/")[0]):
        yield rest[odd.end() :]
    query = re.split(r"[?#]", rest, maxsplit=1)
    if len(query) == 2:
        values = (pair.partition("=")[2] for pair in re.split(r"[&;#]", query[1]))
        yield from (found for found in (query[1], *values) if len(found) >= _LONG)


def _spelt(secret: str) -> Iterator[str]:
    quoted = (quote(secret), quote(secret, safe=""), quote_plus(secret))
    for made in (secret, unquote(secret), unquote_plus(secret), *quoted):
        yield from {made, repr(made)[1:-1]} - {""}

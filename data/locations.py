"""Where bundles and snapshots lie: a folder of this machine, or anything that fsspec has a URL for.

Three promises that the rest builds on: a name appears with its whole content or not at all, a read never
brings more than was allowed for, and no message shows the credentials that a URL may hold.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any, Protocol, TypeVar
from urllib.parse import unquote, urlsplit

from tithe.data import credentials
from tithe.data.errors import LocationError, MissingError, UsageError
from tithe.data.plain import read_plain
from tithe.data.text import safe_line

T = TypeVar("T")

ATTEMPTS = 3
"""Of every remote operation; what is refused or not there is not asked for again."""
FIRST_PAUSE_S = 0.3
CONNECT_S = 15.0
SILENCE_S = 30.0
"""How long a server may say nothing."""
UNFINISHED_S = 3600.0
"""Nobody writes one file for longer: what is unfinished after that was left by a kill."""
TOTAL_S = 300.0
"""Of one request to a remote location."""

_WHOLE_PUTS = frozenset(
    {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "http", "https", "memory", "oci"}
)
"""Protocols whose put shows the new content at once or not at all; the others get a new name, then a move."""
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_NOWHERE = frozenset({"memory", "data"})
"""Protocols of what ends with the process."""
_NO_BUCKET = re.compile(r"(?i)bucket does not exist|NoSuchBucket|container .*not exist")
# As `write_whole` names what it has not finished, and an outbox a journal that nobody has locked yet.
_UNFINISHED = re.compile(r"\..+\.[0-9]+\.[0-9a-f]{8}\.tmp|\.[0-9a-f]{16}\.new")
_USER = re.compile(r"^[^/@]*@")
_STREAMED = frozenset({"http", "https"})
_LISTED_WHOLE = _WHOLE_PUTS - _STREAMED
_ABSENT = frozenset({404, 410})
_FINAL = (PermissionError, NotImplementedError, TimeoutError)
_EXTRAS = {"http": "http", "https": "http", "s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs"}
"""Protocol to the extra of tithe that brings what it needs."""


class Location(Protocol):
    """A flat set of named files. Every method raises `LocationError` where it cannot be reached."""

    @property
    def shown(self) -> str:
        """The location as it may be printed: without credentials."""

    def read(self, name: str, *, limit: int) -> bytes:
        """The content of `name`; `MissingError` where there is none, `LocationError` above `limit` bytes."""

    def write(self, name: str, content: bytes) -> None:
        """Puts `content` under `name`, replacing what was there, whole or not at all."""

    def names(self, suffix: str) -> list[str]:
        """Names that end with `suffix`, also in folders below, sorted; none where there is no such folder.

        What only looks like a file (a link, a pipe) has a name too: who reads it is told what it is.
        """

    def remove(self, name: str) -> None:
        """Removes `name`; one that is gone already is no error."""


def location(url: str) -> Location:
    """The location at `url`: a path, `file://…`, or any URL that fsspec knows.

    Raises:
        UsageError: It is empty, of a protocol that nothing here knows, or no URL that can be meant.
        LocationError: What the protocol needs is not installed; the message has the command.
    """
    if not url.strip() or "\x00" in url:
        raise UsageError(
            f"{safe_line(url)!r} is no folder and no URL",
            mend="give a folder, or a URL such as s3://bucket/tithe",
        )
    protocol, colon, rest = url.partition("://")
    if not colon:
        _check_folder(url)
        return Folder(Path(url).expanduser())
    if protocol == "file":
        host, slash, path = rest.partition("/")
        if host not in {"", "localhost"} or not path.strip("/"):
            raise _odd(url, "names no folder of this machine", "write file:///path/of/the/folder")
        return Folder(Path(slash + unquote(path)))
    _check_url(url, protocol, rest)
    return Remote(url, protocol)


def destination(url: str) -> Location:
    """The location at `url`, to write to.

    Raises:
        UsageError: As for `location`, or it is a file.
        LocationError: As for `location`.
    """
    place = location(url)
    if (
        isinstance(place, Folder)
        and (place.path.exists() or place.path.is_symlink())
        and not place.path.is_dir()
    ):
        raise UsageError("is a file, not a folder", where=place.shown, mend="name a folder, or a URL")
    return place


def named_file(url: str) -> tuple[Location, str]:
    """The location and the name of the one file that the caller named: it may be a link, as a person wants it."""
    folder, name = split(url)
    place = location(folder)
    return (Folder(place.path, follow=True) if isinstance(place, Folder) else place), name


def split(url: str) -> tuple[str, str]:
    """The folder and the last name of a path or URL."""
    folder, slash, name = url.rstrip("/").rpartition("/")
    return (folder or "/", name) if slash else (".", name)


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file of this machine under a new name, makes it durable, and swaps it in.

    Raises:
        OSError: As the system says it; nothing is left behind.
    """
    unfinished = path.parent / f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp"
    try:
        with unfinished.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink()
        raise
    _sync_folder(path.parent)


class Folder:
    """A folder of this machine, made when something is written."""

    def __init__(self, path: Path, *, follow: bool = False) -> None:
        self.path = path
        self._follow = follow
        self.shown = safe_line(str(path), limit=1000)

    def read(self, name: str, *, limit: int) -> bytes:
        """See `Location`."""
        path = self.path / name
        try:
            content = read_plain(path, limit + 1, follow=self._follow)
        except (FileNotFoundError, NotADirectoryError):
            raise MissingError("there is no such file", where=_safe(path)) from None
        except OSError as error:
            raise LocationError(f"cannot be read: {error.strerror}", where=_safe(path)) from None
        return _within(content, limit, _safe(path))

    def write(self, name: str, content: bytes) -> None:
        """See `Location`."""
        path = self.path / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, content)
        except OSError as error:
            raise LocationError(
                f"cannot be written: {error.strerror}",
                where=_safe(path),
                mend="see to the folder's space and permissions",
            ) from None

    def names(self, suffix: str) -> list[str]:
        """See `Location`."""
        try:
            os.scandir(self.path).close()  # what `rglob` cannot list it says nothing about
            found = [path for path in self.path.rglob(f"*{suffix}") if not stat.S_ISDIR(path.lstat().st_mode)]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise LocationError(f"cannot be listed: {error.strerror}", where=self.shown) from None
        return sorted(path.relative_to(self.path).as_posix() for path in found)

    def remove(self, name: str) -> None:
        """See `Location`."""
        try:
            (self.path / name).unlink(missing_ok=True)
        except OSError as error:
            raise LocationError(
                f"cannot be removed: {error.strerror}", where=_safe(self.path / name)
            ) from None

    def tidy(self) -> None:
        """Removes what writers that were killed have left half-written, an hour ago or longer."""
        with suppress(OSError), os.scandir(self.path) as entries:
            for entry in entries:
                if _UNFINISHED.fullmatch(entry.name) and entry.stat(follow_symlinks=False).st_mtime < _old():
                    with suppress(OSError):
                        os.unlink(entry.path)  # noqa: PTH108 - of an entry of the folder


class Remote:
    """A location behind a URL, through fsspec."""

    def __init__(self, url: str, protocol: str) -> None:
        self._protocol = protocol
        self._secrets = credentials.secrets_of(url)
        self.shown = shown(url)
        self._files, root = self._filesystem(url)
        self._root = root.rstrip("/")

    def read(self, name: str, *, limit: int) -> bytes:
        """See `Location`."""
        path = self._path(name)

        def get() -> bytes:
            if self._protocol in _STREAMED:
                return self._stream(path, limit)
            size = self._files.info(path).get("size")
            if size is not None and size > limit:
                raise LocationError(f"is larger than {limit} bytes", where=self._named(name))
            return bytes(self._files.cat_file(path))

        return _within(self._try(get, "read", name), limit, self._named(name))

    def write(self, name: str, content: bytes) -> None:
        """See `Location`."""
        path = self._path(name)

        def put() -> None:
            if self._protocol in _WHOLE_PUTS:
                self._files.pipe_file(path, content)
                return
            self._files.makedirs(str(PurePosixPath(path).parent), exist_ok=True)
            unfinished = f"{path}.{secrets.token_hex(6)}.tmp"
            try:
                self._files.pipe_file(unfinished, content)
                self._files.mv(unfinished, path)
            except BaseException:
                with suppress(Exception):
                    self._files.rm_file(unfinished)
                raise

        self._try(put, "written", name)

    def names(self, suffix: str) -> list[str]:
        """See `Location`."""

        def find() -> list[str]:
            try:
                if self._protocol not in _LISTED_WHOLE:
                    self._files.ls(
                        self._root, detail=False
                    )  # `find` says of a dead server that nothing is there
                return list(self._files.find(self._root))
            except FileNotFoundError as error:
                if _NO_BUCKET.search(str(error)):
                    raise
                return []

        prefix = f"{self._root}/"
        found = self._try(find, "listed", "")
        return sorted(
            path.removeprefix(prefix) for path in found if path.endswith(suffix) and path.startswith(prefix)
        )

    def remove(self, name: str) -> None:
        """See `Location`."""
        path = self._path(name)

        def gone() -> None:
            with suppress(FileNotFoundError):
                self._files.rm_file(path)

        self._try(gone, "removed", name)

    def _stream(self, path: str, limit: int) -> bytes:
        """Of a server that need not tell the truth about a size, or ever end.

        Asked about a file first, fsspec says of a server that is down that there is no such file.
        """
        from fsspec.asyn import sync

        async def get() -> bytes:
            session = await self._files.set_session()
            async with session.get(self._files.encode_url(path)) as answer:
                if answer.status in _ABSENT:
                    raise FileNotFoundError(path)
                answer.raise_for_status()
                parts, left = [], limit + 1
                while left > 0 and (part := await answer.content.read(min(left, 1 << 20))):
                    parts.append(part)
                    left -= len(part)
                return b"".join(parts)

        return bytes(sync(self._files.loop, get))

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _named(self, name: str) -> str:
        return f"{self.shown.rstrip('/')}/{safe_line(name)}" if name else self.shown

    def _try(self, what: Callable[[], T], verb: str, name: str) -> T:
        pause = FIRST_PAUSE_S
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return what()
            except LocationError:
                raise
            except FileNotFoundError as error:
                if _NO_BUCKET.search(str(error)):
                    mend = "see to the address"
                    raise LocationError("there is no such bucket", where=self.shown, mend=mend) from None
                raise MissingError("there is no such file", where=self._named(name)) from None
            except Exception as error:  # every backend has errors of its own
                last = isinstance(error, _FINAL) or "Timeout" in type(error).__name__ or attempt == ATTEMPTS
                if last:
                    raise LocationError(
                        f"cannot be {verb}: {self._said(error)}",
                        where=self._named(name),
                        mend="see to the address, the network and the credentials",
                    ) from None
            time.sleep(pause)
            pause *= 3
        raise AssertionError("the last attempt returns or raises")

    def _filesystem(self, url: str) -> tuple[Any, str]:
        try:
            import fsspec
        except ImportError:
            raise _not_installed("http", self.shown) from None
        try:
            options = _options(self._protocol)
            return fsspec.core.url_to_fs(url, skip_instance_cache=True, **options)  # type: ignore[no-any-return]
        except ImportError as error:
            raise _not_installed(_EXTRAS.get(self._protocol, ""), self.shown, self._said(error)) from None
        except ValueError as error:
            raise UsageError(
                f"cannot be used: {self._said(error)}",
                where=self.shown,
                mend="give a folder, or a URL such as s3://bucket/tithe",
            ) from None
        except Exception as error:
            raise LocationError(f"cannot be reached: {self._said(error)}", where=self.shown) from None

    def _said(self, error: BaseException) -> str:
        """The error's words; hidden is what has to be before anything cuts them."""
        return safe_line(credentials.hidden(str(error), self._secrets), limit=400) or type(error).__name__


def shown(url: str) -> str:
    """The URL without user, password and query, which may be secrets."""
    return safe_line(credentials.shown(url), limit=1000)


def identity(url: str) -> str:
    """What makes two URLs one location, whoever asks: not the user, the password or the query.

    Never to be shown: what may be a password in an odd place stays in it.
    """
    head, mark, rest = url.partition("://")
    if not mark:
        return safe_line(url, limit=1000)
    return safe_line(f"{head}://{_USER.sub('', rest.partition('?')[0].partition('#')[0])}", limit=1000)


def _check_folder(url: str) -> None:
    if _SCHEME.match(url):
        raise _odd(
            url,
            "is no URL, which has :// in it",
            "write s3://bucket/tithe, or ./NAME for a folder with a colon in its name",
        )


def _check_url(url: str, protocol: str, rest: str) -> None:
    if "::" in protocol:  # a cache answers for a server that is down, or with what was there last week
        raise _odd(url, "is a chain of file systems", "name the one alone that the files lie in")
    if protocol.lower() in _NOWHERE:
        raise _odd(
            url,
            "keeps nothing: it is gone when this command ends",
            "give a folder, or a URL such as s3://bucket/tithe",
        )
    if protocol in _EXTRAS and not rest.partition("/")[0]:
        raise _odd(url, "names no server and no bucket", "write s3://bucket/tithe or https://server/tithe")
    if protocol in _STREAMED:
        try:
            parts = urlsplit(f"http://{rest}")
            wrong = not parts.hostname or parts.port == 0 or any(char.isspace() for char in parts.netloc)
        except ValueError:
            wrong = True
        if wrong:
            mend = "write a / in a user name or password as %2F, an @ as %40 and a : as %3A"
            raise _odd(url, "has no server that can be asked", mend)


def _odd(url: str, what: str, mend: str) -> UsageError:
    return UsageError(what, where=shown(url), mend=mend)


def _options(protocol: str) -> dict[str, Any]:
    if protocol in {"http", "https"}:
        import aiohttp

        return {
            "client_kwargs": {
                "timeout": aiohttp.ClientTimeout(total=TOTAL_S, connect=CONNECT_S, sock_read=SILENCE_S)
            },
            "use_listings_cache": False,
        }
    if protocol in {"s3", "s3a"}:
        limits = {"connect_timeout": CONNECT_S, "read_timeout": SILENCE_S, "retries": {"max_attempts": 2}}
        return {"config_kwargs": limits, "use_listings_cache": False}
    return {}


def _not_installed(extra: str, where: str, said: str = "") -> LocationError:
    mend = f"pip install 'tithe[{extra}]'" if extra else f"install what it names ({safe_line(said)})"
    return LocationError("what this protocol needs is not installed", where=where, mend=mend)


def _within(content: bytes, limit: int, where: str) -> bytes:
    if len(content) > limit:
        raise LocationError(f"is larger than {limit} bytes", where=where)
    return content


def _old() -> float:
    return time.time() - UNFINISHED_S


def _safe(path: Path) -> str:
    return safe_line(str(path), limit=1000)


def _sync_folder(folder: Path) -> None:
    """Makes the new name itself survive a power cut; some file systems cannot, and need not."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            os.fsync(handle)
    finally:
        os.close(handle)

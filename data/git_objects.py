"""Reads objects of a repository that may not have them all, without ever waiting for the network.

In a partial clone a missing object makes git ask the promisor remote, one request for each, and die when
the remote does not answer; only git 2.45 and later can be told not to. But an empty repository that borrows
the object folder has no promisor: to it a missing object is simply missing. So reading goes through such a
view, and fetching is one request for all that is missing, made on purpose.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from tithe.data import git_process
from tithe.data.errors import GitError

_OBJECT_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
FETCH_TIMEOUT_S = 300.0


class ObjectReader:
    """The objects of the repository whose work tree is `root`."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._out_of_reach = False

    @cached_property
    def promisor(self) -> str:
        """Name of the remote that holds what a partial clone left out; empty if the clone is whole."""
        done = git_process.run(
            self._root,
            "config",
            "-z",
            "--get-regexp",
            r"^(remote\..*\.promisor|extensions\.partialclone)$",
            ok=(0, 1),
        )
        for field in done.stdout.split(b"\x00"):
            key, _, value = git_process.decode(field).partition("\n")
            if key == "extensions.partialclone" and value:
                return value
            if key.startswith("remote.") and value.lower() in {"true", "yes", "on", "1", ""}:
                return key.removeprefix("remote.").removesuffix(".promisor")
        return ""

    def missing(self, ids: Iterable[str]) -> frozenset[str]:
        """Those of `ids` that this repository does not have; asks no remote."""
        wanted = list(dict.fromkeys(ids))
        absent: set[str] = set()
        with self._batch("--batch-check=%(objectname) %(objecttype)", wanted) as stdout:
            for line in stdout:
                name, _, kind = line.decode("ascii").strip().partition(" ")
                if kind == "missing":
                    absent.add(name)
        return frozenset(absent)

    def fetch(self, ids: Sequence[str]) -> bool:
        """Get `ids` from the promisor in one request; False if it is out of reach.

        It is asked once only: a remote that did not answer is not waited for a second time.
        """
        if not ids:
            return True
        if not self.promisor or self.promisor.startswith("-") or self._out_of_reach:
            return False
        try:
            git_process.run(
                self._root,
                *("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--recurse-submodules=no"),
                *("--filter=blob:none", "--stdin", "--end-of-options", self.promisor),
                stdin="".join(f"{name}\n" for name in ids).encode(),
                timeout_s=FETCH_TIMEOUT_S,
            )
        except GitError:
            self._out_of_reach = True
            return False
        return True

    def blobs(self, ids: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Id and content of each blob that can be had, in the order of `ids`, through one process.

        In a partial clone what is missing is asked for once; what does not come is left out.
        """
        wanted = list(dict.fromkeys(ids))
        if self.promisor:
            self.fetch(sorted(self.missing(wanted)))
        with self._batch("--batch", wanted) as stdout:
            for line in stdout:
                name, *kind = line.decode("ascii").split()
                if len(kind) != 2:
                    continue
                size = int(kind[1])
                content = stdout.read(size + 1)
                if len(content) != size + 1:
                    raise GitError(f"ended in the middle of {name}", where="git cat-file")
                if kind[0] == "blob":
                    yield name, content[:-1]

    @contextmanager
    def _batch(self, mode: str, ids: Sequence[str]) -> Iterator[git_process.Output]:
        if odd := next((name for name in ids if not _OBJECT_ID.fullmatch(name)), None):
            raise GitError(f"{odd[:80]!r} is not an object id")
        with (
            tempfile.TemporaryDirectory(prefix="tithe-objects-") as folder,
            tempfile.TemporaryFile() as stdin,
        ):
            stdin.write("".join(f"{name}\n" for name in ids).encode())
            stdin.seek(0)
            env = self._view(Path(folder))
            with git_process.streaming(None, "cat-file", mode, "--buffer", stdin=stdin, env=env) as stdout:
                yield stdout

    def _view(self, folder: Path) -> dict[str, str]:
        """An empty repository in `folder`, and the environment in which git works on it with our objects."""
        for name in ("objects", "refs"):
            (folder / name).mkdir()
        (folder / "HEAD").write_text("ref: refs/heads/none\n")
        (folder / "config").write_text(
            "[core]\n\trepositoryformatversion = 1\n\tbare = true\n"
            f"[extensions]\n\tobjectFormat = {self._object_format}\n"
        )
        return {"GIT_DIR": str(folder), "GIT_OBJECT_DIRECTORY": self._object_folder}

    @cached_property
    def _object_folder(self) -> str:
        return str(
            Path(self._root, git_process.text(self._root, "rev-parse", "--git-path", "objects")).resolve()
        )

    @cached_property
    def _object_format(self) -> str:
        return git_process.text(self._root, "rev-parse", "--show-object-format")

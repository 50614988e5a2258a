"""Records on their way out: none is lost by a kill, a dead server or a full disk, and none is sent for another."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.data.test_spool import ALL, CHANGE, LAUNCH, OUTCOME, RUN, SELECTION
from tithe.data import outbox
from tithe.data.errors import LocationError
from tithe.data.locations import Folder
from tithe.data.outbox import JOURNAL, Outbox, push
from tithe.data.records import Launch, LaunchId
from tithe.data.spool import SUFFIX, read_bundle


def filled(folder: Path) -> Outbox:
    box = Outbox(folder)
    box.add_changes([CHANGE])
    box.add_selection(SELECTION, 1.0)
    box.add_run(RUN)
    box.add_launches([LAUNCH])
    box.add_outcomes([OUTCOME])
    return box


def launch(number: int) -> Launch:
    return replace(LAUNCH, id=LaunchId(f"l-{number}"))


class Dead(Folder):
    """A location that nothing can be written to."""

    def write(self, name: str, content: bytes) -> None:  # noqa: ARG002 - as in the seam
        raise LocationError("cannot be written: nobody there", where="s3://bucket")


def records(folder: Path) -> list[object]:
    return [record for path in sorted(folder.glob(f"*{SUFFIX}")) for record in read_bundle(path)]


def test_a_run_is_one_bundle_and_leaves_nothing_here(tmp_path: Path) -> None:
    report = filled(tmp_path / "out").deliver(Folder(tmp_path / "spool"))
    assert report.launches == 1
    assert len(report.sent) == 1
    assert not report.faults
    assert sorted(map(str, records(tmp_path / "spool"))) == sorted(map(str, ALL))
    assert list((tmp_path / "out").iterdir()) == []


def test_nothing_measured_is_nothing_sent(tmp_path: Path) -> None:
    assert Outbox(tmp_path / "out").deliver(Folder(tmp_path / "spool")) == outbox.PushReport()
    assert not (tmp_path / "out").exists()
    assert push(tmp_path / "out", Folder(tmp_path / "spool")) == outbox.PushReport()


def test_what_cannot_be_sent_waits_for_the_next_call(tmp_path: Path) -> None:
    report = filled(tmp_path / "out").deliver(Dead(tmp_path))
    assert report.waiting == 1
    assert "nobody there" in report.faults[0]
    report = push(tmp_path / "out", Folder(tmp_path / "spool"))
    assert len(report.sent) == 1
    assert len(records(tmp_path / "spool")) == len(ALL)
    assert push(tmp_path / "out", Folder(tmp_path / "spool")) == outbox.PushReport()


def test_into_itself_it_is_sealed_for_a_later_call(tmp_path: Path) -> None:
    assert not filled(tmp_path / "out").deliver(Folder(tmp_path / "out")).faults
    (bundle,) = (tmp_path / "out").iterdir()
    assert bundle.name.endswith(SUFFIX)


def test_the_journal_of_a_run_that_lives_is_not_touched(tmp_path: Path) -> None:
    box = filled(tmp_path / "out")
    assert push(tmp_path / "out", Folder(tmp_path / "spool")) == outbox.PushReport()
    box.add_launches([launch(2)])
    assert box.deliver(Folder(tmp_path / "spool")).launches == 2


def test_of_a_killed_run_all_but_the_torn_line_is_sent_once(tmp_path: Path) -> None:
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path\n"
        "from tests.unit.data.test_outbox import filled, launch\n"
        "box = filled(Path(sys.argv[2]))\n"
        "print('ready', flush=True)\n"
        "for number in range(10**6): box.add_launches([launch(number)])\n"
    )
    root = Path(__file__).resolve().parents[3]
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(root), str(tmp_path / "out")], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    (journal,) = (tmp_path / "out").glob(f"*{JOURNAL}")
    with journal.open("ab") as file:
        file.write(b'{"kind":"launch","record":{"id":"torn')
    whole = journal.read_bytes().count(b"\n")
    report = push(tmp_path / "out", Folder(tmp_path / "spool"))
    assert not report.faults
    assert len(records(tmp_path / "spool")) == whole >= len(ALL)
    assert list((tmp_path / "out").iterdir()) == []


def test_killed_while_sealing_it_is_the_same_bundle_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path / "out").close()
    (journal,) = (tmp_path / "out").iterdir()
    before = journal.read_bytes()
    push(tmp_path / "out", Dead(tmp_path))
    journal.write_bytes(before)  # as if the kill came between the bundle and the end of its journal
    push(tmp_path / "out", Folder(tmp_path / "spool"))
    assert len(records(tmp_path / "spool")) == len(ALL)


def test_a_long_run_is_several_bundles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "PART_BYTES", 1000)
    box = Outbox(tmp_path / "out")
    box.add_launches([launch(number) for number in range(20)])
    report = box.deliver(Folder(tmp_path / "spool"))
    assert len(report.sent) > 3
    assert report.launches == 20
    assert {record.id for record in records(tmp_path / "spool")} == {f"l-{n}" for n in range(20)}  # type: ignore[attr-defined]


def test_of_a_damaged_journal_the_good_lines_are_sent_and_the_bad_ones_said_once(tmp_path: Path) -> None:
    filled(tmp_path / "out").close()
    (journal,) = (tmp_path / "out").iterdir()
    good = journal.read_bytes().splitlines(keepends=True)
    deep = b'{"kind":"run","record":{"z":' + b"[" * 100_000 + b"\n"
    journal.write_bytes(b"garbage\n" + deep + b"".join(good[:2]) + b"\n" + b"".join(good[2:]))
    report = push(tmp_path / "out", Folder(tmp_path / "spool"))
    assert (report.waiting, report.faults) == (0, ())
    (said,) = report.damaged
    assert "3 of 8 lines are damaged and left out (line 1: " in said
    assert sorted(map(str, records(tmp_path / "spool"))) == sorted(map(str, ALL))
    assert push(tmp_path / "out", Folder(tmp_path / "spool")) == outbox.PushReport()


def test_a_line_without_end_is_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "LINE_BYTES", 2000)
    filled(tmp_path / "out").close()
    (journal,) = (tmp_path / "out").iterdir()
    journal.write_bytes(b"x" * 5000 + b"\n" + journal.read_bytes() + b"y" * 4000)
    report = push(tmp_path / "out", Folder(tmp_path / "spool"))
    assert "1 of 6 lines" in report.damaged[0]
    assert len(records(tmp_path / "spool")) == len(ALL)
    monkeypatch.setattr(outbox, "JOURNAL_BYTES", 3000)
    filled(tmp_path / "out").close()
    (journal,) = (tmp_path / "out").iterdir()
    journal.write_bytes(journal.read_bytes() * 3)
    assert "has more than" in push(tmp_path / "out", Folder(tmp_path / "spool")).faults[0]


@pytest.mark.parametrize("suffix", [JOURNAL, SUFFIX])
@pytest.mark.parametrize("kind", ["pipe", "loop", "dangling", "link to a file", "folder", "socket"])
def test_what_is_no_file_is_named_and_keeps_nothing_else_here(tmp_path: Path, kind: str, suffix: str) -> None:
    filled(tmp_path / "out").close()
    odd = tmp_path / "out" / ("0" * 32 + suffix)
    (tmp_path / "secret").write_text("of the user")
    if kind == "pipe":
        os.mkfifo(odd)
    elif kind == "folder":
        odd.mkdir()
    elif kind == "socket":
        near = Path(tempfile.mkdtemp(prefix="s", dir="/tmp")) / "s"
        near.symlink_to(tmp_path / "out")  # the path of a socket must be short
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(near / odd.name))
        shutil.rmtree(near.parent)
    else:
        odd.symlink_to({"loop": odd.name, "dangling": "nowhere", "link to a file": tmp_path / "secret"}[kind])
    before = time.monotonic()
    report = push(tmp_path / "out", Folder(tmp_path / "spool"))
    assert time.monotonic() - before < 10
    assert report.waiting == 1
    (fault,) = report.faults
    assert odd.name in fault
    assert "is " in fault
    assert len(records(tmp_path / "spool")) == len(ALL)
    assert (tmp_path / "secret").read_text() == "of the user"


def test_many_faults_are_counted(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    for number in range(30):
        (tmp_path / "out" / f"{number:032x}{SUFFIX}").write_bytes(b"garbage")
    report = push(tmp_path / "out", Folder(tmp_path / "spool"))
    assert report.waiting == 30
    assert len(report.faults) == outbox.NAMED + 1
    assert report.faults[-1] == f"and {30 - outbox.NAMED} more"


def test_a_bundle_that_another_push_has_sent_is_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        box = Outbox(tmp_path / "out")
        box.add_launches([launch(number)])
        box.close()

    class Racing(Folder):
        """Another push is faster by one bundle, each time."""

        def write(self, name: str, content: bytes) -> None:
            for path in sorted((tmp_path / "out").glob(f"*{SUFFIX}")):
                super().write(path.name, path.read_bytes())
                path.unlink()
            super().write(name, content)

    report = push(tmp_path / "out", Racing(tmp_path / "spool"))
    assert (report.faults, report.waiting) == ((), 0)
    assert len(records(tmp_path / "spool")) == 3


def test_what_a_killed_writer_left_half_written_goes_after_an_hour(tmp_path: Path) -> None:
    out, spool = tmp_path / "out", tmp_path / "spool"
    filled(out).close()
    spool.mkdir()
    old = [out / ".a.gz.77.0123abcd.tmp", out / ".0123456789abcdef.new", spool / ".a.gz.7.0123abcd.tmp"]
    kept = [out / ".b.gz.77.0123abcd.tmp", out / ".mine.tmp"]
    for path in (*old, *kept):
        path.write_text("half")
    for path in (*old, kept[1]):
        os.utime(path, (1.0, 1.0))
    push(out, Folder(spool))
    assert sorted(out.iterdir()) == kept
    assert len(list(spool.iterdir())) == 1


@pytest.mark.parametrize("limit", [0, 700])
def test_a_full_disk_loses_nothing(tmp_path: Path, limit: int) -> None:
    """What is in no journal goes out from memory; the process ends well."""
    child = os.fork()
    if child == 0:
        try:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            soft = resource.getrlimit(resource.RLIMIT_FSIZE)
            box = Outbox(tmp_path / "out")
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, soft[1]))
            for record in (launch(n) for n in range(5)):
                box.add_launches([record])
            fault = box.fault
            resource.setrlimit(resource.RLIMIT_FSIZE, soft)  # the spool is elsewhere, and has room
            real, outbox.os.write = outbox.os.write, lambda *_: (_ for _ in ()).throw(OSError(28, "full"))  # type: ignore[attr-defined]
            report = box.deliver(Folder(tmp_path / "spool"))
            outbox.os.write = real  # type: ignore[attr-defined]
            os._exit(0 if fault and not report.faults and report.launches == 5 else 1)
        except BaseException:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(records(tmp_path / "spool")) == 5


def test_a_full_disk_and_a_dead_server_say_what_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    box = Outbox(tmp_path / "out")
    box.add_launches([launch(1)])
    monkeypatch.setattr(outbox.os, "write", full)
    box.add_launches([launch(2), launch(3)])
    assert "No space left" in box.fault
    report = box.deliver(Dead(tmp_path))
    assert (report.lost, report.waiting) == (2, 1)
    monkeypatch.undo()
    assert push(tmp_path / "out", Folder(tmp_path / "spool")).launches == 1

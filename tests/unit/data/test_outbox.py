"""Records on their way out: none is lost by a kill, a dead server or a full disk, and none is sent for another."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
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


def test_a_damaged_journal_is_named_and_kept(tmp_path: Path) -> None:
    filled(tmp_path / "out").close()
    (journal,) = (tmp_path / "out").iterdir()
    journal.write_bytes(b"garbage\n" + journal.read_bytes())
    report = push(tmp_path / "out", Folder(tmp_path / "spool"))
    assert report.waiting == 1
    assert "line 1" in report.faults[0]
    assert journal.exists()


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

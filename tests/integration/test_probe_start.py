"""The probe in processes without torch: it starts, gives way, and disturbs nothing."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tithe.runner.launch import LaunchPlan, LaunchResult, launch
from tithe.runner.marks import read_functions


def run(tmp_path: Path, code: str, *, path: str = "", packages: tuple[str, ...] = ()) -> LaunchResult:
    folder = tmp_path / "launch"
    folder.mkdir()
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": path}
    return launch(LaunchPlan((sys.executable, "-c", code), tmp_path, env, 60.0, folder, packages=packages))


def names(result: LaunchResult) -> list[str]:
    return [mark.name for mark in result.marks]


def test_the_interpreter_is_marked_within_the_launch(tmp_path: Path) -> None:
    result = run(tmp_path, "pass")
    assert names(result) == ["interpreter"]
    assert 0 < result.marks[0].seconds < result.wall_s


def test_an_existing_sitecustomize_runs_and_the_probe_is_out_of_sight(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import builtins; builtins.theirs = __file__\n")
    code = (
        "import sys, sitecustomize as s; print(theirs == s.__file__, [p for p in sys.path if 'probe' in p])"
    )
    result = run(tmp_path, code, path=str(tmp_path))
    assert result.stdout.read_text() == "True []\n"
    assert names(result) == ["interpreter"]


def test_a_broken_sitecustomize_is_told_as_it_is_without_us(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("raise ValueError('theirs')\n")
    result = run(tmp_path, "print('on')", path=str(tmp_path))
    assert result.stdout.read_text() == "on\n"
    assert "theirs" in result.stderr.read_text()


def test_nothing_new_is_imported_or_left_behind(tmp_path: Path) -> None:
    code = (
        "import sys; print(sorted(m for m in sys.modules if not m.startswith(('_tithe', 'sitecustomize'))))"
    )
    with_probe = run(tmp_path, code)
    folder = tmp_path / "bare"
    folder.mkdir()
    bare = launch(
        LaunchPlan(
            (sys.executable, "-c", code), folder, {"PATH": os.environ["PATH"]}, 60.0, folder, probe=False
        )
    )
    extra = set(eval(with_probe.stdout.read_text())) - set(eval(bare.stdout.read_text()))  # noqa: S307 - our own list
    assert extra <= {"atexit", "__future__"}


def test_a_program_that_closes_all_descriptors_and_leaves_by_os_exit_keeps_its_marks(tmp_path: Path) -> None:
    code = (
        "import os; os.closerange(0, 256)\n"
        "from tithe.first_batch_mark import first_batch; first_batch(); os._exit(0)"
    )
    result = run(tmp_path, code, path=os.pathsep.join(filter(None, sys.path)))
    assert result.exit_code == 0
    assert names(result) == ["interpreter", "first-batch"]


def test_an_unwritable_marks_file_disturbs_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "launch"
    folder.mkdir()
    env = {"PATH": os.environ["PATH"]}
    plan = LaunchPlan(
        (sys.executable, "-c", "print('on')"),
        tmp_path,
        env,
        60.0,
        folder,
        extra_env={"TITHE_MARKS": "/proc/none/x"},
    )
    result = launch(plan)
    assert (result.exit_code, result.stdout.read_text(), result.stderr.read_text()) == (0, "on\n", "")


def test_a_program_that_only_looks_like_torch_is_not_disturbed(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("x = 1\n")
    result = run(tmp_path, "import torch; print(torch.x)", path=str(tmp_path))
    assert (result.exit_code, result.stdout.read_text(), result.stderr.read_text()) == (0, "1\n", "")
    assert names(result)[:2] == ["interpreter", "torch-imported"]


def test_origins_of_packages(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text("")
    result = run(tmp_path, "import pkg", path=str(tmp_path), packages=("pkg", "absent"))
    assert [(origin.package, Path(origin.file)) for origin in result.origins] == [
        ("pkg", tmp_path / "pkg" / "__init__.py")
    ]


COUNTED = """
import collections, os, threading
def helper(): pass
def thread(): pass
def child(): pass
def never(): pass
collections.namedtuple("Generated", "a b")
helper()
started = threading.Thread(target=thread)
started.start(); started.join()
if os.fork() == 0:
    child(); os._exit(0)
os.wait()
"""


def test_counting_sees_the_users_functions_in_threads_and_children_and_nothing_else(tmp_path: Path) -> None:
    folder, user = tmp_path / "launch", tmp_path / "user"
    folder.mkdir()
    user.mkdir()
    (user / "job.py").write_text(COUNTED)
    extra = {"TITHE_COVER": str(tmp_path / "functions"), "TITHE_COVER_ROOT": str(user)}
    words = (sys.executable, "-W", "ignore", "job.py")
    result = launch(LaunchPlan(words, user, {"PATH": os.environ["PATH"]}, 60.0, folder, extra_env=extra))
    assert (result.exit_code, result.stderr.read_text()) == (0, "")
    found = {name.partition("@")[0] for name in read_functions(tmp_path / "functions", result.start_ns)}
    assert found == {f"job.py:{name}" for name in ("<module>", "helper", "thread", "child")}

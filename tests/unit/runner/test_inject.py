"""The injector: where it can plant, what the planted code does, and that nothing of it stays."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tithe.data.errors import UsageError
from tithe.runner import inject
from tithe.runner.inject import Injection, Site

SOURCE = '''\
#!/usr/bin/env python
"""A module."""
from __future__ import annotations

import sys


@staticmethod
def decorated(x):
    return x


class Thing:
    def method(self, items):
        """Doc."""
        return len(items)

    def short(self): return 1


async def later():
    """Only a docstring."""


def last(items):
    def inner():
        return items

    return inner()


if __name__ == "__main__":
    print(last([1, 2, 3]), Thing().method([1]))
'''


def test_sites_are_functions_with_a_body_of_their_own_and_the_module() -> None:
    found = inject.sites({"m.py": SOURCE.encode()})
    assert [(site.place, site.name) for site in found] == [
        ("import", ""),
        ("function", "decorated"),
        ("function", "Thing.method"),
        ("function", "last"),
        ("function", "last.inner"),
    ]


def test_configuration_has_its_numbers() -> None:
    text = b'{\n  "steps": 10,\n  "name": "3x",\n  "rate": 0.5\n}\n'
    found = inject.sites({"c.json": text, "c.yaml": b"depth: 4  # layers\nname: x\nzero: 0\n"})
    assert [(site.path, site.name, site.line) for site in found] == [
        ("c.json", "steps", 2),
        ("c.json", "rate", 4),
        ("c.yaml", "depth", 1),
    ]
    assert all(site.place == "config" for site in found)
    steps, rate, depth = (Injection(site, "busy", 0.2) for site in found)
    assert json.loads(inject.edit({"c.json": text}, steps)["c.json"])["steps"] == 12
    assert json.loads(inject.edit({"c.json": text}, rate)["c.json"])["rate"] == pytest.approx(0.6)
    assert inject.edit({"c.yaml": b"depth: 4  # layers\n"}, depth) == {"c.yaml": b"depth: 5  # layers\n"}


@pytest.mark.parametrize("text", ["def broken(:\n", "\x00", "x" * 10 + "\xff"])
def test_what_cannot_be_parsed_has_no_sites(text: str) -> None:
    assert inject.sites({"m.py": text.encode("latin-1"), "b.json": b"\xff\xfe"}) == ()


@pytest.mark.parametrize("kind", [*inject.KINDS, "counting"])
@pytest.mark.parametrize("growth", ["call", "size"])
@pytest.mark.parametrize("source", [SOURCE, SOURCE.replace("\n", "\r\n"), SOURCE.rstrip("\n")])
def test_every_site_takes_every_kind_and_the_file_still_runs(
    tmp_path: Path, kind: inject.Kind, growth: inject.Growth, source: str
) -> None:
    path = tmp_path / "m.py"
    for site in inject.sites({"m.py": source.encode()}):
        path.write_bytes(source.encode())
        if site.name == "decorated":
            continue  # a decorator of its kind runs nothing
        with inject.planted(tmp_path, Injection(site, kind, 1e-5, growth)) as changed:
            assert "m.py" in changed
            done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=True)
            assert done.stdout == "[1, 2, 3] 1\n"
        assert path.read_bytes() == source.encode()
        assert [one.name for one in tmp_path.glob("*.py")] == ["m.py"]


def timed(tmp_path: Path, injection: Injection, calls: str) -> tuple[float, float]:
    """Wall and processor seconds of the calls, beyond those without the slow-down."""
    source = textwrap.dedent(
        f"""
        import time


        def work(items):
            return None


        wall, cpu = time.perf_counter(), time.process_time()
        {calls}
        print(time.perf_counter() - wall, time.process_time() - cpu)
        """
    )
    (tmp_path / "m.py").write_text(source)
    with inject.planted(tmp_path, injection):
        done = subprocess.run(
            [sys.executable, str(tmp_path / "m.py")], capture_output=True, text=True, check=True
        )
    wall, cpu = map(float, done.stdout.split())
    return wall, cpu


SITE = Site("function", "m.py", "work", 6)


@pytest.mark.parametrize("kind", ["busy", "blocking", "importing"])
def test_a_slow_down_takes_what_it_says(tmp_path: Path, kind: inject.Kind) -> None:
    wall, cpu = timed(tmp_path, Injection(SITE, kind, 0.1), "work([]); work([])")
    times = 1 if kind == "importing" else 2  # a module is imported once
    assert wall >= 0.1 * times
    if kind == "blocking":
        assert cpu < 0.1


def test_one_that_grows_takes_more_for_more(tmp_path: Path) -> None:
    wall, _ = timed(tmp_path, Injection(SITE, "blocking", 0.01, "size"), "work([1] * 30)")
    assert wall >= 0.3


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
def test_an_allocating_one_takes_memory(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(
        "def work(items):\n    pass\n\n\n"
        "work([])\nprint(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])\n"
    )

    def peak() -> int:
        done = subprocess.run(
            [sys.executable, str(tmp_path / "m.py")], capture_output=True, text=True, check=True
        )
        return int(done.stdout)

    before = peak()
    with inject.planted(tmp_path, Injection(Site("function", "m.py", "work", 2), "allocating", 0.1)):
        assert peak() - before > 90_000


@pytest.mark.parametrize(("growth", "expected"), [("call", 3), ("size", 6)])
def test_a_counter_counts_and_scales(tmp_path: Path, growth: inject.Growth, expected: int) -> None:
    given_ = Injection(SITE, "busy", 1.0, growth)
    metrics = tmp_path / "metrics"
    metrics.write_text('{"value": 1}\n')
    os.environ["TITHE_METRICS"] = str(metrics)
    try:
        timed(tmp_path, inject.counting(given_), "for n in 1, 2, 3: work([0] * n)")
    finally:
        del os.environ["TITHE_METRICS"]
    values = [json.loads(line) for line in metrics.read_text().splitlines()]
    assert values == [{"value": 1}, {inject.COUNT_METRIC: expected}]
    assert inject.scaled(given_, 0.6, expected).amount == pytest.approx(0.6 / expected)


def test_a_draw_is_registered_and_repeatable() -> None:
    found = inject.sites({"m.py": SOURCE.encode()})
    one = inject.draw(found, seed=4, count=20, amounts=(0.01, 0.02), growths=("call", "size"))
    again = inject.draw(reversed(found), seed=4, count=20, amounts=(0.01, 0.02), growths=("call", "size"))
    assert one == again
    assert inject.registration(one) == inject.registration(again)
    other = inject.draw(found, seed=5, count=20, amounts=(0.01, 0.02), growths=("call", "size"))
    assert inject.registration(one) != inject.registration(other)
    assert {injection.site for injection in one} == set(found)
    assert all(i.growth == "call" for i in one if i.site.place == "import")


def test_a_site_that_is_gone_is_refused() -> None:
    with pytest.raises(UsageError, match=r"m\.py: has no function work on line 9"):
        inject.edit({"m.py": SOURCE.encode()}, Injection(Site("function", "m.py", "work", 9), "busy", 1))
    with pytest.raises(ValueError, match="nothing to draw"):
        inject.draw([], seed=1, count=1, amounts=(1.0,))


def test_an_edit_in_between_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    path.write_text(SOURCE)
    site = inject.sites({"m.py": SOURCE.encode()})[0]
    with pytest.raises(UsageError, match="was changed"), inject.planted(tmp_path, Injection(site, "busy", 1)):
        path.write_text("mine = 1\n")
    assert path.read_text() == "mine = 1\n"


@given(st.integers(0, 10), st.text(alphabet="abc #\"'\\", max_size=12))
def test_planted_code_is_python_whatever_surrounds_it(depth: int, comment: str) -> None:
    source = "".join(f"{'    ' * n}def f{n}():\n" for n in range(depth + 1))
    source += f"{'    ' * (depth + 1)}# {comment}\n{'    ' * (depth + 1)}return 1\n"
    for site in inject.sites({"m.py": source.encode()}):
        for kind in (*inject.KINDS, "counting"):
            changed = inject.edit({"m.py": source.encode()}, Injection(site, kind, 0.5, "size"))  # type: ignore[arg-type]
            ast.parse(changed["m.py"])

"""The first tithe.toml: whatever the repository looks like, the text loads and says what was found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tithe.data.config import Config, load
from tithe.data.initial import MOST_SCENARIOS, describe

Make = Callable[..., Any]
GUARD = '\nif __name__ == "__main__":\n    main()\n'


def described(root: Path) -> tuple[str, Config]:
    """The text, and what `load` makes of it in its place."""
    text = describe(root)
    (root / "tithe.toml").write_text(text, encoding="utf-8")
    return text, load(root)


def test_a_training_repository(workshop: Make) -> None:
    shop = workshop()
    shop.git("checkout", "-q", "-b", "master")
    shop.commit(
        "one",
        {
            "src/trainer/__init__.py": "",
            "src/trainer/__main__.py": "print()",
            "src/trainer/train_lm.py": "from torch import nn\n" + GUARD,
            "tests/__init__.py": "",
            "tests/train_test.py": GUARD,
            "train.py": "import torch\nparser.add_argument('config')\n" + GUARD,
            "benchmarks/tokenise.py": "import tithe\ntithe.first_batch()\n" + GUARD,
            "benchmarks/test_speed.py": "def test_a(): ...",
            "benchmarks/common.py": "x = 1",
            "examples/sp ace.py": GUARD,
            "examples/notebook.py": "x = 1",
            "strain.py": GUARD,
            "pyproject.toml": '[build-system]\nrequires = ["setuptools"]\n',
        },
    )
    text, config = described(shop.root)
    assert config.main == "master"
    assert config.pythonpath == ("src",)
    assert config.packages == ("trainer",)
    assert config.setup == ""
    assert '# setup = "pip install -e ."\n# setup_key = ["pyproject.toml"]' in text
    assert {scenario.name: scenario.command for scenario in config.scenarios} == {
        "train": ("python", "train.py"),
        "src-trainer-train_lm": ("python", "-m", "trainer.train_lm"),
        "benchmarks-tokenise": ("python", "benchmarks/tokenise.py"),
        "examples-sp-ace": ("python", "examples/sp ace.py"),
        "src-trainer": ("python", "-m", "trainer"),
    }
    assert [scenario.name for scenario in config.scenarios][:2] == ["train", "src-trainer-train_lm"]
    train, tokenise = config.scenario("train"), config.scenario("benchmarks-tokenise")
    assert (train.stop, train.gate) == ("first-step", ("ttfb",))
    assert (tokenise.stop, tokenise.gate) == ("none", ("ttfb",))
    assert config.scenario("examples-sp-ace").gate == ("wall",)
    assert (
        '# it reads arguments: add those of a short, representative run\ncommand = "python train.py"' in text
    )


def test_an_empty_folder_without_git(tmp_path: Path) -> None:
    text, config = described(tmp_path)
    assert config.scenarios == ()
    assert "No training script or benchmark was found" in text
    assert (config.main, config.pythonpath, config.packages_in(tmp_path)) == ("main", (".",), ())


def test_an_empty_repository(workshop: Make) -> None:
    assert described(workshop().root)[1].main == "main"


def test_scripts_are_found_without_git(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("x")
    assert [scenario.name for scenario in described(tmp_path)[1].scenarios] == ["train"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("setup.py", "setup(ext_modules=[Extension('a', ['a.c'])])"),
        ("pyproject.toml", '[build-system]\nbuild-backend = "mesonpy"\n'),
    ],
)
def test_what_must_be_compiled_is_set_up(workshop: Make, name: str, content: str) -> None:
    shop = workshop()
    shop.commit("one", {name: content, "pkg/__init__.py": ""})
    config = described(shop.root)[1]
    assert config.setup == "pip install -e ."
    assert config.setup_key == (name,)


def test_packages_in_other_homes(workshop: Make) -> None:
    shop = workshop()
    shop.commit("one", {"python/pkg/__init__.py": "", "python/pkg/train.py": GUARD})
    config = described(shop.root)[1]
    assert (config.pythonpath, config.packages) == (("python",), ("pkg",))
    assert config.scenarios[0].command == ("python", "-m", "pkg.train")


def test_many_candidates_and_an_asv_suite(workshop: Make) -> None:
    shop = workshop()
    shop.commit(
        "one",
        {f"benchmarks/b{number:02}.py": GUARD for number in range(40)}
        | {"asv.conf.json": "{}", "b00.py": ""},
    )
    text, config = described(shop.root)
    assert len(config.scenarios) == MOST_SCENARIOS
    assert "#   python benchmarks/b06.py" in text
    assert "asv run --python=same" in text


def test_odd_names_neither_break_the_text_nor_collide(workshop: Make) -> None:
    shop = workshop()
    names = ['a"b', "a'b", "a b", "a\\b", "-dash", "ü😀", "x" * 180, "#", "a\nb", "a\x7fb", "$(touch x)"]
    shop.commit("one", {f"benchmarks/{name}.py": GUARD for name in names})
    shop.git("branch", "-m", "main", 'qu"ote-ü')
    _, config = described(shop.root)
    assert config.main == 'qu"ote-ü'
    found = {scenario.command[1] for scenario in config.scenarios}
    assert len(config.scenarios) == len(found) == MOST_SCENARIOS
    for name in names:
        (shop.root / "benchmarks" / f"{name}.py").rename(shop.root / "train.py")
        shop.git("add", "--all")
    (shop.root / "train.py").write_bytes(b"\xff\xfe" + GUARD.encode())
    assert described(shop.root)[1].scenarios[0].command == ("python", "train.py")


def test_every_odd_name_by_itself(workshop: Make) -> None:
    shop = workshop()
    for name in ['a"b', "a'b", "a\\b", "-dash", "ü😀", "#", "$(touch x)", "[a]"]:
        path = shop.write(f"benchmarks/{name}.py", GUARD)
        (scenario,) = described(shop.root)[1].scenarios
        assert scenario.command == ("python", f"benchmarks/{name}.py")
        path.unlink()

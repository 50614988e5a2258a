"""tithe.toml: what a right one becomes, and what a wrong one is told."""

# ruff: noqa: E501 - a message is compared as a whole, on one line

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tithe.data.config import Config, DecisionPolicy, GraphRule, json_schema, load, tomllib
from tithe.data.config_file import EXPECTED
from tithe.data.errors import EXIT_USAGE, ConfigError, UsageError
from tithe.data.records import BUILTIN_METRICS, Metric, MetricName, Scenario, ScenarioName

FULL = """
[tithe]
main = "trunk"
setup = "pip install -e '.[dev]'"
setup_key = ["pyproject.toml", "requirements/*.txt"]
setup_timeout = "1h30m"
pythonpath = ["lib", "."]
python = "/usr/bin/python3"
env = ["DATA_DIR", "HF_HOME"]

[graph]
packages = ["mytrainer"]

[[graph.rule]]
files = ["configs/*.yaml"]
scenarios = ["lm-*"]

[decision]
wanted_effect = 0.1
floor = 0
max_blocks = 20
false_alarms_per_week = 2
decisions_per_week = 100

[[scenario]]
name = "lm-small"
command = "python train.py --config 'configs/a b.yaml'"
metrics = ["ttfb", "wall", { name = "loss", unit = "", direction = "smaller" }, { name = "rate", direction = "larger" }]
gate = ["wall", "rate"]
stop = "first-step"
tier = "release"
resource = "gpu"
timeout = "90s"
owner = "@training-infra"
env = { OMP_NUM_THREADS = "2" }
cwd = "examples"
requires = ["torch", "a.b"]
files = ["configs/**"]
warmup = 0

[[scenario]]
name = "tokenise"
command = ["sh", "-c", "python a.py && python b.py"]
fresh_cwd = true
"""

Writer = Callable[[str], Config]


@pytest.fixture
def read(tmp_path: Path) -> Writer:
    def read(text: str) -> Config:
        (tmp_path / "tithe.toml").write_text(text, encoding="utf-8")
        return load(tmp_path)

    return read


def test_every_key(read: Writer, tmp_path: Path) -> None:
    config = read(FULL)
    assert config.root == tmp_path
    assert config.path == tmp_path / "tithe.toml"
    assert (config.main, config.setup, config.setup_key) == (
        "trunk",
        "pip install -e '.[dev]'",
        ("pyproject.toml", "requirements/*.txt"),
    )
    assert config.setup_timeout_s == 5400
    assert config.pythonpath == ("lib", ".")
    assert (config.python, config.env_allow) == ("/usr/bin/python3", ("DATA_DIR", "HF_HOME"))
    assert config.packages == ("mytrainer",)
    assert config.rules == (GraphRule(("configs/*.yaml",), ("lm-*",)),)
    assert config.decision == DecisionPolicy(0.1, 0.0, 20, 2.0, 100.0)
    assert config.scenarios == (
        Scenario(
            name=ScenarioName("lm-small"),
            command=("python", "train.py", "--config", "configs/a b.yaml"),
            metrics=(
                BUILTIN_METRICS["ttfb"],
                BUILTIN_METRICS["wall"],
                Metric(MetricName("loss"), "", "smaller"),
                Metric(MetricName("rate"), "s", "larger"),
            ),
            gate=(MetricName("wall"), MetricName("rate")),
            stop="first-step",
            tier="release",
            resource="gpu",
            timeout_s=90.0,
            owner="@training-infra",
            env={"OMP_NUM_THREADS": "2"},
            cwd="examples",
            requires=("torch", "a.b"),
            files=("configs/**",),
            warmup=0,
        ),
        Scenario(
            name=ScenarioName("tokenise"), command=("sh", "-c", "python a.py && python b.py"), fresh_cwd=True
        ),
    )


def test_defaults_are_those_of_the_records(read: Writer) -> None:
    config = read('[tithe]\n[[scenario]]\nname = "a"\ncommand = "x"\n')
    assert config.scenarios == (Scenario(name=ScenarioName("a"), command=("x",)),)
    assert config.decision == DecisionPolicy()
    assert config.main == "main"


def test_a_file_without_scenarios_is_right(read: Writer) -> None:
    assert read("[tithe]\n").scenarios == ()


def test_the_first_metric_decides(read: Writer) -> None:
    config = read('[tithe]\n[[scenario]]\nname = "a"\ncommand = "x"\nmetrics = ["rss", "wall"]\n')
    assert config.scenarios[0].gate == ("rss",)


def test_pythonpath_and_packages_are_found(tmp_path: Path) -> None:
    for folder in ("src/inner", "outer", "tests", "src/no_package"):
        (tmp_path / folder).mkdir(parents=True)
        if "no_" not in folder:
            (tmp_path / folder / "__init__.py").touch()
    (tmp_path / "tithe.toml").write_text("[tithe]\n")
    assert (load(tmp_path).pythonpath_in(tmp_path), load(tmp_path).packages_in(tmp_path)) == (
        ("src",),
        ("inner",),
    )
    (tmp_path / "src/inner/__init__.py").unlink()
    assert (load(tmp_path).pythonpath_in(tmp_path), load(tmp_path).packages_in(tmp_path)) == (
        (".",),
        ("outer",),
    )


def test_found_from_below_up_to_the_checkout(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    below = checkout / "a" / "b"
    below.mkdir(parents=True)
    (checkout / ".git").mkdir()
    (tmp_path / "tithe.toml").write_text("[tithe]\n")
    with pytest.raises(ConfigError, match=r"there is no tithe\.toml; run `tithe init`"):
        load(below)
    (checkout / "tithe.toml").write_text("[tithe]\n")
    assert load(below).root == checkout
    (checkout / "a" / "tithe.toml").write_text('[tithe]\nmain = "nearer"\n')
    assert (load(below).main, load(below).root) == ("nearer", checkout)


def test_another_file_may_lie_outside_of_the_checkout(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    (checkout / ".git").touch()
    other = tmp_path / "other.toml"
    other.write_text("[tithe]\n")
    config = load(checkout, other)
    assert (config.root, config.path) == (checkout, other)
    with pytest.raises(ConfigError, match="there is no such file"):
        load(checkout, tmp_path / "nope.toml")
    other.write_text("[tihte]\n")
    with pytest.raises(
        ConfigError, match=r"other\.toml: unknown key \"tihte\"; did you mean \"tithe\"\?|no \[tithe\]"
    ):
        load(checkout, other)


SCENARIO = '[tithe]\n[[scenario]]\nname = "a"\ncommand = "python x"\n'
SECOND = SCENARIO + '[[scenario]]\nname = "b"\n'

WRONG = {
    'stop = "first-stp"': 'scenario "a": stop: expected "first-batch", "first-step" or "none", got "first-stp"; did you mean "first-step"?',
    'stp = "none"': 'scenario "a": unknown key "stp"; did you mean "stop"?',
    "xyz = 1": 'scenario "a": unknown key "xyz"; known here: command, cores, cwd,',
    'metrics = ["ttbf"]': 'scenario "a": metrics: "ttbf" is not one of "ttfb", "wall", "cpu", "rss" or "instructions"; did you mean "ttfb"?',
    'metrics = ["loss"]': '"loss" is not one of "ttfb", "wall", "cpu", "rss" or "instructions"; for what the command reports, write { name = "loss"',
    "metrics = [3]": 'scenario "a": metrics, item 1: expected the name of a metric',
    "metrics = []": 'scenario "a": metrics: expected a list that is not empty, got an empty list',
    'metrics = "wall"': 'scenario "a": metrics: expected a list that is not empty, got "wall"',
    'metrics = ["wall", "wall"]': 'scenario "a": metrics: "wall" is given twice',
    'metrics = [{ name = "v", direction = "up" }]': 'scenario "a": metrics 1: direction: expected "larger" or "smaller", got "up"',
    'metrics = [{ name = "v", unti = "s" }]': 'scenario "a": metrics 1: unknown key "unti"; did you mean "unit"?',
    'metrics = [{ name = "wall", unit = "h" }]': 'scenario "a": metrics: "wall" is measured by tithe itself, in s',
    'gate = ["wall"]': 'scenario "a": gate: "wall" is not among the metrics "ttfb"; add it to metrics',
    'metrics = ["rss"]\ngate = ["rs"]': 'did you mean "rss"?',
    "gate = []": 'scenario "a": gate: expected a list that is not empty',
    'timeout = "5"': 'scenario "a": timeout: expected a duration such as "90s", "5m" or "1h30m", got "5"',
    "timeout = 5": 'scenario "a": timeout: expected a duration such as "90s", "5m" or "1h30m", got 5',
    'timeout = "0s"': 'scenario "a": timeout: "0s" leaves no time at all',
    'timeout = "-5m"': 'scenario "a": timeout: expected a duration',
    "env = { A = 1 }": 'scenario "a": env.A: expected text, got 1',
    'env = { "a b" = "1" }': 'scenario "a": env: a name in the table is not the name of an environment variable',
    'env = { PYTHONPATH = "x" }': 'scenario "a": env: PYTHONPATH is set by tithe itself; use pythonpath in [tithe]',
    'env = { TITHE_MARKS = "x" }': 'scenario "a": env: TITHE_MARKS is set by tithe itself',
    'env = { A = "\\u0000" }': 'scenario "a": env: A holds a NUL character',
    "warmup = -1": 'scenario "a": warmup: expected a whole number from 0 and up to 100, got -1',
    "warmup = 1.5": 'scenario "a": warmup: expected a whole number',
    "warmup = true": 'scenario "a": warmup: expected a whole number from 0 and up to 100, got true',
    'memory = "2"': 'scenario "a": memory: expected an amount of memory such as "500MB" or "2GiB", got "2"',
    "cores = -1": 'scenario "a": cores',
    'results = { format = "junit" }': 'scenario "a": results.format: ',
    'results = { format = "asv" }': 'scenario "a": results: no file is given',
    'results = { format = "asv", file = "../x" }': 'scenario "a": results: "../x" leaves the checkout',
    "fresh_cwd = 1": 'scenario "a": fresh_cwd: expected true or false, got 1',
    'fresh_cwd = true\ncwd = "x"': 'scenario "a": cwd: has no meaning together with fresh_cwd',
    'cwd = "/x"': 'scenario "a": cwd: "/x" leaves the checkout; give a path relative',
    'cwd = "a/../../x"': 'scenario "a": cwd: "a/../../x" leaves the checkout',
    'owner = "a\\nb"': 'scenario "a": owner: expected one line of text',
    'requires = ["a b"]': 'scenario "a": requires, item 1: expected the name of a module',
    'resource = ""': 'scenario "a": resource: expected the name of a resource',
    'tier = "nightly"': 'scenario "a": tier: expected "change" or "release", got "nightly"',
}


@pytest.mark.parametrize("lines", WRONG)
def test_wrong_scenarios(read: Writer, lines: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(SCENARIO + lines + "\n")
    assert str(caught.value).startswith("tithe.toml: ")
    assert WRONG[lines] in str(caught.value)
    assert str(caught.value).isprintable()
    assert caught.value.exit_code == EXIT_USAGE


WRONG_FILES = {
    SCENARIO
    + '[[scenario]]\nname = "a"\ncommand = "y"\n': 'scenarios 1 and 2 are both named "a"; give each a name of its own',
    SCENARIO + '[[scenario]]\ncommand = "y"\n': 'tithe.toml: scenario 2: "name" is missing',
    SECOND: 'tithe.toml: scenario "b": "command" is missing',
    SECOND + 'command = ""': 'scenario "b": command: expected text that is not empty',
    SECOND + 'command = "  "': 'scenario "b": command: names no program; write it like "python train.py"',
    SECOND
    + "command = []": 'scenario "b": command: expected text that is not empty or a list that is not empty',
    SECOND + 'command = [""]': 'scenario "b": command: names no program',
    SECOND + 'command = ["a", 3]': 'scenario "b": command, item 2: expected text, got 3',
    SECOND + 'command = "a \'b"': 'scenario "b": command: cannot be split into words: no closing quotation',
    SECOND
    + 'command = "a | b"': 'scenario "b": command: | has no meaning here, as no shell reads it; put it into a script',
    SECOND + 'command = "A=1 b"': 'scenario "b": command: "A=1" is not a program; set variables with env =',
    SECOND + 'command = "a\\u0000"': 'scenario "b": command: holds a NUL character',
    SCENARIO + '[[scenario]]\nname = "-b"\ncommand = "x"': 'scenario "-b": name: expected a name of letters',
    SCENARIO
    + '[[scenario]]\nname = "a\\u001b[31m"\ncommand = "x"': 'scenario "a\\x1b[31m": name: expected a name of letters',
    SCENARIO + '[[graph.rule]]\nfiles = ["x"]\n': 'tithe.toml: graph.rule 1: "scenarios" is missing',
    SCENARIO
    + '[[graph.rule]]\nfiles = ["x"]\nscenarios = ["b*"]\n': 'graph.rule 1: scenarios: "b*" matches no scenario; scenarios here: "a"',
    SCENARIO + "[grph]\n": 'tithe.toml: unknown key "grph"; did you mean "graph"?',
    "[tithe]\n[decision]\nfloor = 1\n": "tithe.toml: decision.floor: expected a number from 0 and below 1, got 1",
    "[tithe]\n[decision]\nwanted_effect = 0.0\n": "decision.wanted_effect: expected a number from 0.0001 and below 1, got 0.0",
    "[tithe]\n[decision]\nfloor = nan\n": "decision.floor: expected a number",
    "[tithe]\n[decision]\nfalse_alarms_per_week = inf\n": "decision: false_alarms_per_week: expected a finite number",
    "[tithe]\n[decision]\nfalse_alarms_per_week = 9e9\n": "decision: false_alarms_per_week: 9e+09 is not below decisions_per_week (5000)",
    "": 'tithe.toml: there is no [tithe] table; put [tithe] with main = "main" at its top',
    "[graph]\n": "there is no [tithe] table",
    "tithe = 3\n": "tithe.toml: tithe: expected a table, got 3",
    "[tithe]\n[scenario]\nname = 'x'\n": "tithe.toml: scenario: expected a list, got a table; write the head of the table as [[scenario]]",
    "[tithe]\nmian = 'x'\n": 'tithe.toml: tithe: unknown key "mian"; did you mean "main"?',
    "[tithe]\nmain = '--x'\n": 'tithe: main: "--x" is not the name of a branch',
    "[tithe]\nsetup = 'pip install x && y'\n": "tithe: setup: && has no meaning here",
    "[tithe]\npythonpath = ['/abs']\n": 'tithe: pythonpath: "/abs" leaves the checkout',
    "[tithe]\nsetup_key = ['../x']\n": 'tithe: setup_key: "../x" leaves the checkout',
    "[tithe]\nsetup_timeout = '0s'\n": 'tithe: setup_timeout: "0s" leaves no time',
    "[tithe]\nenv = ['A=1']\n": "tithe.env, item 1: expected the name of an environment variable",
    "[tithe]\n\nx = [1\n": "is not valid TOML: ",
    "[tithe]\nmain = 'a'\nmain = 'b'\n": "tithe.toml:3: is not valid TOML: ",
}


@pytest.mark.parametrize("text", WRONG_FILES)
def test_wrong_files(read: Writer, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(text)
    assert str(caught.value).startswith("tithe.toml")
    assert WRONG_FILES[text] in str(caught.value)
    assert str(caught.value).isprintable()


def test_what_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "tithe.toml"
    path.write_bytes(b"[tithe]\n# caf\xe9\n")
    with pytest.raises(ConfigError, match=r"tithe\.toml:2: is not UTF-8"):
        load(tmp_path)
    path.write_bytes(b"\xef\xbb\xbf[tithe]\n")
    assert load(tmp_path).main == "main"
    path.write_text("[tithe]\nx = " + "[" * 100_000)
    with pytest.raises(ConfigError, match=r"tithe\.toml"):
        load(tmp_path)
    path.unlink()
    path.mkdir()
    with pytest.raises(ConfigError, match=r"tithe\.toml: cannot be read"):
        load(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission(tmp_path: Path) -> None:
    (tmp_path / "tithe.toml").write_text("[tithe]\n")
    (tmp_path / "tithe.toml").chmod(0)
    with pytest.raises(ConfigError, match=r"cannot be read \(Permission denied\)"):
        load(tmp_path)


def test_a_scenario_by_name(read: Writer) -> None:
    config = read(SCENARIO.replace('"a"', '"lm-small"'))
    assert config.scenario("lm-small").name == "lm-small"
    with pytest.raises(UsageError, match=r'there is no scenario "lm-smal"; did you mean "lm-small"\?'):
        config.scenario("lm-smal")
    with pytest.raises(UsageError, match=r'tithe\.toml has "lm-small"'):
        config.scenario("\x1b[31m")
    with pytest.raises(UsageError, match="has no scenarios yet"):
        read("[tithe]\n").scenario("x")


def _violations(text: str) -> list[str]:
    data: dict[str, Any] = tomllib.loads(text)
    return [error.message for error in jsonschema.Draft202012Validator(json_schema()).iter_errors(data)]


def test_the_schema_is_one_and_takes_what_is_right() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())
    for text in (FULL, SCENARIO, "[tithe]\n"):
        assert _violations(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "[graph]\n",
        SECOND,
        SCENARIO + "stp = 1\n",
        SCENARIO + 'stop = "first-stp"\n',
        SCENARIO + 'timeout = "5"\n',
        SCENARIO + "metrics = []\n",
        SCENARIO + 'metrics = [{ name = "v", unti = "s" }]\n',
        SCENARIO + "env = { A = 1 }\n",
        SCENARIO + "warmup = -1\n",
        SECOND + "command = []\n",
        "[tithe]\n[decision]\nfloor = 1\n",
    ],
)
def test_the_schema_refuses_what_the_types_refuse(read: Writer, text: str) -> None:
    assert _violations(text)
    with pytest.raises(ConfigError):
        read(text)


def test_the_schema_says_what_keys_mean() -> None:
    tables = json_schema()["$defs"]
    assert isinstance(tables, dict)
    undescribed = [
        f"{name}.{key}"
        for name, table in tables.items()
        for key, value in table.get("properties", {}).items()
        if "description" not in value and "$ref" not in value
    ]
    assert set(undescribed) <= {"ConfigFile.scenario", "GraphTable.rule", "MetricTable.direction"}


def test_every_pattern_can_be_said_in_words() -> None:
    def patterns(value: object) -> set[str]:
        if isinstance(value, dict):
            own = {value["pattern"]} if isinstance(value.get("pattern"), str) else set()
            return own.union(*(patterns(part) for part in value.values()))
        return set().union(*(patterns(part) for part in value)) if isinstance(value, list) else set()

    assert patterns(json_schema()) <= set(EXPECTED)

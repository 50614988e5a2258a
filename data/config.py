"""`tithe.toml`: found, read, checked, and turned into the records that the rooms work with.

It is read from the work tree (or from `--config`) and never from a revision under test, so that a scenario
can be measured on commits that are older than itself. All paths in it are relative to the checkout and may
not leave it: an absolute `pythonpath` would make both arms import the same code, and every verdict `same`.
"""

from __future__ import annotations

import fnmatch
import math
import re
import shlex
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn

import msgspec

from tithe.data import config_file
from tithe.data.config_fault import did_you_mean, explain, one_of, show
from tithe.data.config_file import ConfigFile, DecisionTable, MetricTable, ScenarioTable
from tithe.data.errors import ConfigError, UsageError
from tithe.data.layout import default_pythonpath, default_pythonpath_of, find_packages
from tithe.data.records import BUILTIN_METRICS, Metric, MetricName, Results, Scenario, ScenarioName
from tithe.data.text import safe_line
from tithe.data.units import parse_duration, parse_size

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE_NAME = "tithe.toml"
RESULTS_WORD = "{results}"
"""In a command: the path of a file of the launch's own, for its benchmark tool to write to."""
OWN_VARIABLES = frozenset({"PYTHONPATH", "PYTHONHASHSEED"})
"""Variables that tithe sets on every launch, beside those that begin with TITHE_."""

_SHELL_WORDS = frozenset({"|", "||", "&", "&&", ";", ">", ">>", "<", "<<", "2>", "2>&1", "&>"})
_UNQUOTED = re.compile(r"[!#-&(-\[\]-~]+( [!#-&(-\[\]-~]+)*")
_ASSIGNMENT = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*=")


@dataclass(frozen=True)
class GraphRule:
    """Files on which scenarios depend in a way that imports do not show; both are globs."""

    files: tuple[str, ...]
    scenarios: tuple[str, ...]


@dataclass(frozen=True)
class DecisionPolicy:
    """How sure a verdict must be; effects are relative (0.05 is 5 %)."""

    wanted_effect: float = 0.05
    """What must be seen, and what `same` must exclude."""
    floor: float = 0.02
    """The owner's floor of the reporting threshold."""
    max_blocks: int = 12
    """Most blocks of the first stage, and of the confirmation."""
    false_alarms_per_week: float = 1.0
    decisions_per_week: float = 5000.0
    """The error level of each of the two stages is √(false alarms / decisions), if `alpha` is 0."""
    alpha: float = 0.0
    """Error level of each stage, two-sided, where `tithe tune` chose one."""
    noise_factor: float = 0.5
    """k in threshold = max(floor, k × noise)."""


@dataclass(frozen=True)
class Config:
    """A checked `tithe.toml`."""

    root: Path
    """The checkout; all paths of the file are relative to it."""
    path: Path
    """The file that was read."""
    main: str = "main"
    setup: str = ""
    setup_key: tuple[str, ...] = ()
    setup_timeout_s: float = 900.0
    pythonpath: tuple[str, ...] | None = (".",)
    """Folders to import from; None for those that each revision has by default. See `pythonpath_in`."""
    python: str = ""
    """Interpreter of the arms; empty for the one that runs tithe."""
    env_allow: tuple[str, ...] = ()
    """Names of variables that launches may see beside the default allow-list."""
    packages: tuple[str, ...] | None = ()
    """Packages of the repository; None for those that each revision has. See `packages_in`."""
    rules: tuple[GraphRule, ...] = ()
    edge_files: tuple[str, ...] = ()
    """Files of the repository with edges that another tool found; see `tithe.data.graph_files`."""
    decision: DecisionPolicy = field(default_factory=DecisionPolicy)
    scenarios: tuple[Scenario, ...] = ()
    unused: tuple[str, ...] = ()
    """Keys of the file that differ from the policy that was taken from elsewhere, and count for nothing."""
    removed: tuple[ScenarioName, ...] = ()
    """Scenarios that the file has no more, where the policy's revision has them."""
    redefined: tuple[ScenarioName, ...] = ()
    """Scenarios that the file says otherwise than the policy's revision does."""

    def pythonpath_in(self, checkout: Path) -> tuple[str, ...]:
        """Folders of this checkout to import from.

        What is not written down is asked of the checkout that is measured and of no other one: a change that
        moves the packages would else be compared with a base that cannot import anything.
        """
        return default_pythonpath(checkout) if self.pythonpath is None else self.pythonpath

    def pythonpath_of(self, files: Collection[str]) -> tuple[str, ...]:
        """`pythonpath_in` of a revision that is not checked out, from the paths of its files."""
        return default_pythonpath_of(files) if self.pythonpath is None else self.pythonpath

    def packages_in(self, checkout: Path) -> tuple[str, ...]:
        """Names of the packages of this checkout."""
        if self.packages is None:
            return find_packages(checkout, self.pythonpath_in(checkout))
        return self.packages

    def scenario(self, name: str) -> Scenario:
        """The scenario called `name`.

        Raises:
            UsageError: there is none; the message names near ones.
        """
        for scenario in self.scenarios:
            if scenario.name == name:
                return scenario
        names = [str(scenario.name) for scenario in self.scenarios]
        mend = did_you_mean(name, names) or (
            f"{self.path.name} has {one_of(names)}" if names else f"{self.path.name} has no scenarios yet"
        )
        raise UsageError(f"there is no scenario {show(name)}", mend=mend)


PolicySource = Callable[[str], tuple[str, str]]
"""From a path in the repository to the name and the text of that file as a trusted revision has it."""


def load(start: Path, config: Path | None = None, *, policy: PolicySource | None = None) -> Config:
    """The configuration for a checkout that `start` lies in.

    `tithe.toml` is looked for from `start` upwards, to the top of the checkout at most; `config` names
    another file instead, which may lie anywhere. With `policy` only the scenarios are the file's own, and
    everything else is what the trusted revision says: what the file says of it is not even checked.

    Raises:
        ConfigError: no file, not TOML, or not what it must say; names the file, the key and the mend.
        UsageError: the policy cannot be had, since no revision holds the file.
    """
    start = start.absolute()
    path = config.absolute() if config else _find(start)
    root = _checkout(start) or (start if config else path.parent)
    inside = path.is_relative_to(root)
    shown = str(path.relative_to(root)) if inside else str(path)
    data = _parse(_read(path, shown), shown)
    if policy is None:
        return _build(data, root, path, shown)
    if not inside:
        mend = "leave out --policy-from: such a file is not under the change's control"
        raise UsageError("is in no revision of the repository", where=shown, mend=mend)
    trusted_shown, text = policy(path.relative_to(root).as_posix())
    trusted_data = _parse(text, trusted_shown)
    trusted = _build(trusted_data, root, path, trusted_shown)
    # Without the rules of the policy: one may name a scenario that the change has removed.
    own = _build({"tithe": trusted_data["tithe"], "scenario": data.get("scenario", [])}, root, path, shown)
    kept = {scenario.name: scenario for scenario in own.scenarios}
    return replace(
        trusted,
        scenarios=own.scenarios,
        unused=_differing(data, trusted_data),
        removed=tuple(scenario.name for scenario in trusted.scenarios if scenario.name not in kept),
        redefined=tuple(
            scenario.name for scenario in trusted.scenarios if kept.get(scenario.name, scenario) != scenario
        ),
    )


def _differing(data: Mapping[str, Any], trusted: Mapping[str, Any]) -> tuple[str, ...]:
    """Keys outside the scenarios that the two files have unlike: `tithe.env`, `graph.rule`, …"""
    found = []
    for table in sorted({*data, *trusted} - {"scenario"}):
        here, there = data.get(table), trusted.get(table)
        if here == there:
            continue
        if not isinstance(here, dict) or not isinstance(there, dict):
            keys = here if isinstance(here, dict) else there if isinstance(there, dict) else {}
            found += [f"{table}.{key}" for key in keys] or [table]
            continue
        found += [f"{table}.{key}" for key in sorted({*here, *there}) if here.get(key) != there.get(key)]
    return tuple(safe_line(key, limit=60) for key in found)


def json_schema() -> dict[str, object]:
    """JSON schema (draft 2020-12) of `tithe.toml`, for editors."""
    return config_file.json_schema()


def _checkout(start: Path) -> Path | None:
    return next((folder for folder in (start, *start.parents) if (folder / ".git").exists()), None)


def _find(start: Path) -> Path:
    top = _checkout(start)
    for folder in (start, *start.parents):
        if (folder / FILE_NAME).exists():
            return folder / FILE_NAME
        if folder == top:
            break
    raise ConfigError(
        f"there is no {FILE_NAME}", where=str(top or start), mend="run `tithe init` to write one"
    )


def _read(path: Path, shown: str) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        mend = "name an existing file, or run `tithe init` to write one"
        raise ConfigError("there is no such file", where=shown, mend=mend) from None
    except OSError as error:
        raise ConfigError(f"cannot be read ({error.strerror})", where=shown) from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ConfigError("is not UTF-8", where=f"{shown}:{line}", mend="save it as UTF-8") from None


def _parse(text: str, shown: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        place = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)$", message)
        line = (place[1] or str(text.count("\n") + 1)) if place else ""
        what = message[: place.start()] if place else message
        where = f"{shown}:{line}" if line else shown
        raise ConfigError(f"is not valid TOML: {what}", where=where, mend="mend the syntax there") from None
    except RecursionError:
        raise ConfigError("is nested too deeply", where=shown) from None
    except ValueError as error:  # a number of more digits than Python reads
        raise ConfigError(
            f"cannot be read: {safe_line(str(error))}", where=shown, mend="write a shorter number"
        ) from None


def _build(data: dict[str, Any], root: Path, path: Path, shown: str) -> Config:
    try:
        file = msgspec.convert(data, ConfigFile)
    except msgspec.ValidationError as error:
        fault = explain(error, data)
        where = f"{shown}: {fault.where}" if fault.where else shown
        raise ConfigError(fault.what, where=where, mend=fault.mend) from None
    own = file.tithe
    table = _Table(shown, "tithe")
    if own.main.startswith("-"):
        table.wrong("main", f"{show(own.main)} is not the name of a branch")
    table.words("setup", own.setup)
    pythonpath = None if own.pythonpath is msgspec.UNSET else tuple(own.pythonpath)
    for entry in pythonpath or ():
        table.inside("pythonpath", entry)
    for entry in own.setup_key:
        table.inside("setup_key", entry)
    for entry in file.graph.edges:
        _Table(shown, "graph").inside("edges", entry)
    scenarios = _scenarios(file.scenario, shown)
    packages = file.graph.packages
    return Config(
        root=root,
        path=path,
        main=own.main,
        setup=own.setup,
        setup_key=tuple(own.setup_key),
        setup_timeout_s=table.duration("setup_timeout", own.setup_timeout),
        pythonpath=pythonpath,
        python=own.python,
        env_allow=tuple(own.env),
        packages=None if packages is msgspec.UNSET else tuple(packages),
        rules=_rules(file.graph.rule, scenarios, shown),
        edge_files=tuple(file.graph.edges),
        decision=_decision(file.decision, shown),
        scenarios=scenarios,
    )


@dataclass(frozen=True)
class _Table:
    """One table of the file, for messages about what the types alone do not check."""

    shown: str
    name: str

    def wrong(self, key: str, what: str, mend: str = "") -> NoReturn:
        raise ConfigError(what, where=f"{self.shown}: {self.name}: {key}", mend=mend)

    def duration(self, key: str, text: str) -> float:
        seconds = parse_duration(text, where=f"{self.shown}: {self.name}: {key}")
        if seconds <= 0:
            self.wrong(key, f"{show(text)} leaves no time at all")
        return seconds

    def words(self, key: str, command: str | list[str]) -> tuple[str, ...]:
        """Words of a command line; what only a shell would understand is refused, not passed on."""
        if isinstance(command, list):
            words = command
        else:
            try:
                # A hundred times faster, and the same where nothing is quoted.
                words = command.split(" ") if _UNQUOTED.fullmatch(command) else shlex.split(command)
            except ValueError as error:
                self.wrong(key, f"cannot be split into words: {str(error).lower()}")
            if odd := next((word for word in words if word in _SHELL_WORDS), ""):
                mend = 'put it into a script, or write it as ["sh", "-c", "…"]'
                self.wrong(key, f"{odd} has no meaning here, as no shell reads it", mend)
            if words and _ASSIGNMENT.match(words[0]):
                self.wrong(
                    key, f"{show(words[0])} is not a program", 'set variables with env = { NAME = "value" }'
                )
        if any("\x00" in word for word in words):
            self.wrong(key, "holds a NUL character")
        if command and not (words and words[0].strip()):
            self.wrong(key, "names no program", 'write it like "python train.py"')
        return tuple(words)

    def inside(self, key: str, entry: str) -> None:
        """Refuse a path that leaves the checkout."""
        if PurePosixPath(entry).is_absolute() or ".." in PurePosixPath(entry).parts or "\x00" in entry:
            self.wrong(key, f"{show(entry)} leaves the checkout", "give a path relative to the checkout")


def _scenarios(tables: list[ScenarioTable], shown: str) -> tuple[Scenario, ...]:
    seen: dict[str, int] = {}
    for number, table in enumerate(tables, 1):
        if table.name in seen:
            raise ConfigError(
                f"scenarios {seen[table.name]} and {number} are both named {show(table.name)}",
                where=shown,
                mend="give each a name of its own",
            )
        seen[table.name] = number
    return tuple(_scenario(table, _Table(shown, f"scenario {show(table.name)}")) for table in tables)


def _scenario(table: ScenarioTable, here: _Table) -> Scenario:
    metrics = tuple(_metric(metric, here) for metric in table.metrics)
    names = [str(metric.name) for metric in metrics]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        here.wrong("metrics", f"{show(twice)} is given twice")
    gate = names[:1] if table.gate is msgspec.UNSET else table.gate
    for name in gate:
        if name not in names:
            mend = did_you_mean(name, names) or "add it to metrics"
            here.wrong("gate", f"{show(name)} is not among the metrics {one_of(names)}", mend)
    for name in table.env:
        if name in OWN_VARIABLES or name.startswith("TITHE_"):
            mend = "use pythonpath in [tithe]" if name == "PYTHONPATH" else "choose another name"
            here.wrong("env", f"{name} is set by tithe itself", mend)
    if nul := next((name for name, value in table.env.items() if "\x00" in value), ""):
        here.wrong("env", f"{nul} holds a NUL character")
    here.inside("cwd", table.cwd)
    if table.fresh_cwd and table.cwd != ".":
        here.wrong("cwd", "has no meaning together with fresh_cwd = true", "leave one of them out")
    return Scenario(
        name=ScenarioName(table.name),
        command=here.words("command", table.command),
        metrics=metrics,
        gate=tuple(MetricName(name) for name in dict.fromkeys(gate)),
        stop=table.stop,
        tier=table.tier,
        resource=table.resource,
        timeout_s=here.duration("timeout", table.timeout),
        owner=table.owner,
        env=dict(table.env),
        cwd=table.cwd,
        requires=tuple(table.requires),
        files=tuple(table.files),
        warmup=table.warmup,
        fresh_cwd=table.fresh_cwd,
        memory=parse_size(table.memory),
        cores=table.cores,
        results=_results(table, here),
    )


def _results(table: ScenarioTable, here: _Table) -> Results | None:
    given = table.results
    if given is msgspec.UNSET:
        return None
    named = RESULTS_WORD in (table.command if isinstance(table.command, str) else " ".join(table.command))
    if given.file:
        here.inside("results", given.file)
    if named == bool(given.file):
        mend = f"give either file, or {RESULTS_WORD} in the command where it takes the path"
        here.wrong("results", "which file is read is given twice" if named else "no file is given", mend)
    return Results(given.format, given.file)


def _metric(given: str | MetricTable, here: _Table) -> Metric:
    if isinstance(given, str):
        if given in BUILTIN_METRICS:
            return BUILTIN_METRICS[given]
        mend = (
            did_you_mean(given, BUILTIN_METRICS)
            or f'for what the command reports, write {{ name = "{given}", unit = "s" }}'
        )
        here.wrong("metrics", f"{show(given)} is not one of {one_of(BUILTIN_METRICS)}", mend)
    builtin = BUILTIN_METRICS.get(given.name)
    unit = given.unit if given.unit is not msgspec.UNSET else builtin.unit if builtin else "s"
    direction = given.direction if given.direction is not msgspec.UNSET else "smaller"
    metric = Metric(MetricName(given.name), unit, direction)
    if builtin and metric != builtin:
        mend = f'write "{given.name}", or choose another name'
        here.wrong(
            "metrics",
            f"{show(given.name)} is measured by tithe itself, in {builtin.unit}, smaller is better",
            mend,
        )
    return metric


def _rules(
    tables: list[config_file.RuleTable], scenarios: tuple[Scenario, ...], shown: str
) -> tuple[GraphRule, ...]:
    names = [str(scenario.name) for scenario in scenarios]
    for number, table in enumerate(tables, 1):
        for glob in table.scenarios:
            if names and not any(fnmatch.fnmatchcase(name, glob) for name in names):
                mend = did_you_mean(glob, names) or f"scenarios here: {one_of(names)}"
                _Table(shown, f"graph.rule {number}").wrong(
                    "scenarios", f"{show(glob)} matches no scenario", mend
                )
    return tuple(GraphRule(tuple(table.files), tuple(table.scenarios)) for table in tables)


def _decision(table: DecisionTable, shown: str) -> DecisionPolicy:
    keys = ("wanted_effect", "floor", "false_alarms_per_week", "decisions_per_week", "alpha", "noise_factor")
    for key in keys:
        if not math.isfinite(getattr(table, key)):
            _Table(shown, "decision").wrong(key, "expected a finite number")
    if table.false_alarms_per_week >= table.decisions_per_week:
        what = (
            f"{table.false_alarms_per_week:g} is not below decisions_per_week ({table.decisions_per_week:g})"
        )
        _Table(shown, "decision").wrong("false_alarms_per_week", what)
    return DecisionPolicy(**{name: getattr(table, name) for name in table.__struct_fields__})

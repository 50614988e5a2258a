"""The plain records that travel between the rooms, and to files and other machines.

Every arrow in the design is one of these: frozen, typed, and equal when their contents are equal. They are
checked once, where they enter (`tithe.data.codec`, `tithe.data.config`), and trusted from there on. Times
are seconds since the epoch (UTC), durations and costs are seconds, memory is bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NewType

from tithe.data.formats import Format

SCHEMA = 1
"""The version that every JSON document carries as `schema`."""

Sha = NewType("Sha", str)
"""A full git object id of a commit."""
ScenarioName = NewType("ScenarioName", str)
MetricName = NewType("MetricName", str)
RunId = NewType("RunId", str)
LaunchId = NewType("LaunchId", str)

Direction = Literal["smaller", "larger"]
Stop = Literal["none", "first-batch", "first-step"]
Tier = Literal["change", "release"]
ArmName = Literal["base", "head"]
Place = Literal["a", "b"]
Stage = Literal["warmup", "first", "confirm", "probe", "record"]
LaunchStatus = Literal["ok", "failed", "timeout", "unmarked"]
VerdictName = Literal["regressed", "improved", "same", "inconclusive", "broken", "fixed", "error"]
Source = Literal["ab", "sweep", "bisect", "import", "human"]
STRENGTH: dict[Source, int] = {"import": 0, "ab": 1, "sweep": 1, "bisect": 2, "human": 3}
"""Of several outcomes of one subject the one of the strongest source speaks, then the newest."""

Picked = Literal["chosen", "explored", "audited", "swept", "asked"]
"""How an outcome came to be measured; `asked` is a run that a person named, outside any selection."""

FAILING: frozenset[VerdictName] = frozenset({"regressed", "broken"})
"""Verdicts that make a change faulty."""


@dataclass(frozen=True)
class Metric:
    """Something that one launch measures. `direction` says which way is better."""

    name: MetricName
    unit: str = "s"
    direction: Direction = "smaller"


BUILTIN_METRICS: dict[str, Metric] = {
    "ttfb": Metric(MetricName("ttfb"), "s"),
    "wall": Metric(MetricName("wall"), "s"),
    "cpu": Metric(MetricName("cpu"), "s"),
    "rss": Metric(MetricName("rss"), "bytes"),
    "instructions": Metric(MetricName("instructions"), ""),
}


@dataclass(frozen=True)
class Results:
    """A file that the scenario's own benchmark tool writes.

    `file` is relative to where the launch starts; empty where the command takes its path as `{results}`.
    """

    format: Format
    file: str = ""


@dataclass(frozen=True)
class Scenario:
    """A command with its metrics, cost class and owner; the unit that is selected and measured.

    `command` is split into words and never passes through a shell. `gate` names the metrics that decide;
    the others are measured and shown. `requires` names modules without which it cannot run on a machine.
    """

    name: ScenarioName
    command: tuple[str, ...]
    metrics: tuple[Metric, ...] = (BUILTIN_METRICS["ttfb"],)
    gate: tuple[MetricName, ...] = (MetricName("ttfb"),)
    stop: Stop = "none"
    tier: Tier = "change"
    resource: str = "cpu"
    timeout_s: float = 300.0
    owner: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = "."
    """Where it starts, relative to the checkout."""
    requires: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    """Globs of files that it depends on beyond what its command and the import graph say."""
    warmup: int = 1
    """Launches of each arm that are thrown away (and recorded) before the first block."""
    fresh_cwd: bool = False
    """Start in an empty folder of its own instead of the checkout."""
    memory: int = 0
    """Resident bytes of all its processes together, beyond which a launch is ended; 0 for no limit."""
    cores: int = 0
    """Processors that it is kept to, where there are more; 0 for all."""
    results: Results | None = None
    """A file of numbers that a benchmark tool writes."""


@dataclass(frozen=True)
class FileEdit:
    """One file of a change; `added` and `deleted` are lines, -1 for a binary file."""

    path: str
    added: int
    deleted: int
    old_path: str = ""
    """Where it was renamed from; empty if it was not."""
    symbols: tuple[str, ...] = ()
    """Functions and classes that its hunks lie in or define, as far as git finds them."""


@dataclass(frozen=True)
class Change:
    """A commit on first-parent history, or the diff under test.

    `time` is the committer's clock made monotone along first-parent history, so that "before" has one
    meaning. `index` counts from the root of first-parent history; -1 for a diff that is not on it.
    """

    sha: Sha
    parent: Sha
    index: int
    author: str
    time: float
    subject: str
    files: tuple[FileEdit, ...]
    body: str = ""
    merge: bool = False


@dataclass(frozen=True)
class Variant:
    """What an arm has beside its revision, where a proposal and not a change is tested. All may be empty."""

    env: tuple[tuple[str, str], ...] = ()
    """Variables of its launches, over the scenario's own."""
    python: str = ""
    """Interpreter instead of the configured one."""
    install: tuple[str, ...] = ()
    """What pip installs on top, in an environment of the arm's own."""
    args: tuple[str, ...] = ()
    """Words after the scenario's command."""
    isolated: bool = False
    """Whether it gets such an environment with nothing to install, since the other arm has one."""


@dataclass(frozen=True)
class Launch:
    """One process start: the sampling unit. A warm-up is recorded and never used."""

    id: LaunchId
    run: RunId
    scenario: ScenarioName
    arm: ArmName
    sha: Sha
    stage: Stage
    block: int
    position: int
    """Order within its block, from 0; with two arms A and B a block is ABBA or BAAB."""
    place: Place
    started_at: float
    seconds: float
    """Machine time that it took, start-up of the launcher included."""
    status: LaunchStatus
    exit_code: int | None = None
    """As the shell would say it (128 + signal); None when it never started."""
    values: Mapping[str, float] = field(default_factory=dict)
    """Metric name to value in the metric's unit."""
    phases: Mapping[str, float] = field(default_factory=dict)
    """Mark name to seconds since the launch, or since the submit time where one was given."""
    note: str = ""
    """Why it is not `ok`, in one line that is safe to print; empty otherwise."""


@dataclass(frozen=True)
class Verdict:
    """What a head does to one metric of one scenario. `ratio`, `low` and `high` are head over base.

    They come from the confirmation alone where there was one. `detectable` is the smallest relative change
    (0.05 is 5 %) that this many blocks would have shown with 80 % power: "no evidence" always says it.
    """

    scenario: ScenarioName
    metric: MetricName
    verdict: VerdictName
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    blocks: int = 0
    launches: int = 0
    confirmed: bool = False
    threshold: float | None = None
    """The relative effect below which a difference is not reported."""
    detectable: float | None = None
    note: str = ""
    gate: bool = True
    """Whether the metric decides; the others are shown where they moved too."""


@dataclass(frozen=True)
class Outcome:
    """The verdict of one change on one scenario: what the model learns from.

    `change` is the head; the outcome belongs to that change alone only if `base` is its first parent.
    `known_at` is when the verdict was there to be read: no feature of an earlier moment may use it.
    `confidence` is the chance that the verdict is right, `weight` what it counts in training.
    """

    base: Sha
    change: Sha
    scenario: ScenarioName
    metric: MetricName
    verdict: VerdictName
    known_at: float
    source: Source
    picked: Picked
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    confidence: float = 1.0
    weight: float = 1.0
    run: RunId = RunId("")


@dataclass(frozen=True)
class FunctionUse:
    """What a function of the repository took of one watched launch, in all its processes.

    `name` is qualified within the file (`Class.method`, `<module>` for what its import runs). `share` is the part
    of the launch from its calls to its returns, `own` the part outside other functions of the repository.
    """

    path: str
    name: str
    calls: int
    share: float
    own: float


@dataclass(frozen=True)
class Observation:
    """Which files of the repository one untimed launch of a scenario loaded or opened, and what its functions took.

    `known_at` is when it was there to be read: no graph of an earlier moment may use it.
    """

    scenario: ScenarioName
    sha: Sha
    known_at: float
    touched: tuple[str, ...]
    untouched: tuple[str, ...] = ()
    """Files that the graph of that revision leads to, and that it did not touch."""
    functions: tuple[FunctionUse, ...] = ()
    """By path and name."""


@dataclass(frozen=True)
class RunRecord:
    """One call of run, check, sweep or bisect: what was compared, where, and how it ended."""

    id: RunId
    kind: Literal["run", "check", "sweep", "bisect", "record"]
    base: Sha
    head: Sha
    started_at: float
    host: str
    """A name for the machine and interpreter that samples may be pooled within, never across."""
    picked: Picked = "asked"
    selection: str = ""
    """Id of the selection that it carried out; empty if none."""


@dataclass(frozen=True)
class Candidate:
    """One scenario as the selection sees it."""

    scenario: ScenarioName
    probability: float
    cost: Mapping[str, float]
    """Seconds by resource of a whole decision: both arms, share of set-up, confirmation by its chance."""
    rank: int
    picked: str
    """chosen, or why not: budget, unavailable, tier."""
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class DiffSummary:
    """The diff under test, as much of it as a reader wants to see."""

    files: int
    added: int
    deleted: int
    paths: tuple[str, ...]
    """At most twenty, by size of the edit."""


@dataclass(frozen=True)
class Selection:
    """A partition of all candidates into what to run and the rest, with the reason for each."""

    id: str
    base: str
    head: str
    diff: DiffSummary
    budget: Mapping[str, float]
    seed: int
    model: str
    """Version of the model that ranked it, or `prior`."""
    selected: tuple[Candidate, ...]
    rest: tuple[Candidate, ...]
    warnings: tuple[str, ...] = ()
    schema: int = SCHEMA


@dataclass(frozen=True)
class RunReport:
    """What `run` and `sweep` print."""

    id: RunId
    base: str
    head: str
    verdicts: tuple[Verdict, ...]
    spent_s: float
    warnings: tuple[str, ...] = ()
    schema: int = SCHEMA


@dataclass(frozen=True)
class CheckReport:
    """What `check` prints: a run's report with the selection that it carried out."""

    id: RunId
    base: str
    head: str
    verdicts: tuple[Verdict, ...]
    spent_s: float
    warnings: tuple[str, ...]
    selection: Selection
    schema: int = SCHEMA


@dataclass(frozen=True)
class CompareReport:
    """What `compare` prints: a proposal against what is, over many scenarios."""

    id: RunId
    base: str
    head: str
    base_variant: Variant
    head_variant: Variant
    verdicts: tuple[Verdict, ...]
    spent_s: float
    mean_ratio: float | None = None
    """Geometric mean of head over base over the deciding metrics that were measured."""
    mean_low: float | None = None
    mean_high: float | None = None
    """Ends of its interval of 95 %, from how unlike the scenarios answer."""
    warnings: tuple[str, ...] = ()
    others: tuple[CompareReport, ...] = ()
    """Further heads against the same base, each as a document of this kind."""
    schema: int = SCHEMA


@dataclass(frozen=True)
class NoiseReading:
    """What blocks of one revision against itself say of a metric. Scatter is relative (0.02 is 2 %)."""

    scenario: ScenarioName
    metric: MetricName
    blocks: int
    launches: int
    launch_sd: float | None = None
    """Of single launches."""
    block_sd: float | None = None
    """Of a block's statistic, which a decision is made from."""
    block_sd_low: float | None = None
    block_sd_high: float | None = None
    """Ends of its interval of 90 %."""
    statistic: str = "mean"
    """What stands for an arm in a block, as it scatters least: mean, lowest or highest launch; trimmed where
    blocks that are far off are pulled in."""
    detectable: float | None = None
    """Smallest relative effect that a decision of the configured length shows with 80 % power."""
    needed: int | None = None
    """Blocks that show the wanted effect; None where no number that is run does."""
    findings: tuple[str, ...] = ()
    """Why averages mean little here: drift, two kinds of launches, places that differ."""
    word: Literal["quiet", "noisy", "odd", "unknown"] = "unknown"


@dataclass(frozen=True)
class NoiseReport:
    """What `noise` prints."""

    id: RunId
    head: str
    host: str
    readings: tuple[NoiseReading, ...]
    spent_s: float
    warnings: tuple[str, ...] = ()
    schema: int = SCHEMA


@dataclass(frozen=True)
class TunePoint:
    """One setting of a decision's error level and threshold, tried on recorded blocks."""

    alpha: float
    noise_factor: float
    suspected: float
    """Share of quiet decisions whose first stage finds an effect."""
    alarms_per_week: float
    alarms_per_week_high: float
    """Confirmed false alarms at the stated decisions per week, and its upper bound of 95 %."""
    caught: float | None
    """Share of the known effects that are confirmed; None where none is on record."""
    caught_shifted: float
    """The same of quiet blocks, shifted by one to three times the wanted effect."""
    launches_quiet: float
    launches_moved: float
    """Launches of a decision, where there is nothing and where there is one of those shifts."""


@dataclass(frozen=True)
class FreshDecisions:
    """Decisions of one revision against itself, made to look for false alarms."""

    decisions: int
    suspected: int
    alarms: int
    alarms_per_week_high: float
    """Upper bound (95 %, Poisson) at the stated decisions per week: wide, where few decisions were made."""
    launches: int


@dataclass(frozen=True)
class Detectable:
    """The smallest relative effect that a decision shows with 80 % power, under a setting."""

    scenario: ScenarioName
    metric: MetricName
    blocks: int
    """Quiet blocks that this rests on."""
    block_sd: float
    statistic: str
    threshold: float
    effect: float


@dataclass(frozen=True)
class TuneReport:
    """What `tune` prints."""

    id: RunId
    host: str
    points: tuple[TunePoint, ...]
    allowed_per_week: float
    decisions_per_week: float
    chosen: TunePoint | None
    current: TunePoint | None
    """The setting in force, if it is among the points that were tried."""
    detectable: tuple[Detectable, ...]
    quiet_blocks: int
    known_effects: int
    planted: int
    spent_s: float
    fresh: FreshDecisions | None = None
    warnings: tuple[str, ...] = ()
    schema: int = SCHEMA


@dataclass(frozen=True)
class Suspect:
    """A change with the probability that it is the one."""

    sha: Sha
    probability: float


@dataclass(frozen=True)
class ProbeStep:
    """One change measured during a bisection; `ratio` is to the good end, None where it cannot be run."""

    sha: Sha
    ratio: float | None
    note: str = ""


@dataclass(frozen=True)
class BisectReport:
    """Who did it, with the evidence; `culprit` is None where no single change can be named."""

    id: RunId
    scenario: ScenarioName
    metric: MetricName
    good: str
    bad: str
    culprit: Sha | None
    candidates: tuple[Suspect, ...]
    other_steps: tuple[Sha, ...]
    verified: bool
    launches: int
    spent_s: float
    steps: tuple[ProbeStep, ...]
    reason: str = ""
    """Why no culprit is named, in words; empty where one is."""
    verification: Verdict | None = None
    """The A/B of the culprit against its parent."""
    warnings: tuple[str, ...] = ()
    schema: int = SCHEMA


@dataclass(frozen=True)
class ShrinkReport:
    """A cheaper scenario that still runs the same code, and what it lost."""

    id: str
    scenario: ScenarioName
    command: tuple[str, ...]
    env: Mapping[str, str]
    stop: Stop
    cost_before_s: float
    cost_after_s: float
    fidelity: Mapping[str, float]
    signal: Mapping[str, float]
    lost: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    schema: int = SCHEMA

"""Names the change that moved a metric, with as few launches as it can, or says that it cannot.

Nobody is blamed before the effect reproduces between the two ends, and nobody is named before an A/B test of
the change against its parent has confirmed it. In between, each probe is a block of the change that tells
most against the good end, so that a drifting host moves both arms. Changes that cannot be measured are
passed over; the posterior still gives them their share, so that what lies beside a gap is not blamed for what
may have happened inside: the answer is then the range.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tithe.attribution.posterior import FAIL_AFTER, CrashPosterior, StepPosterior
from tithe.data.errors import LaunchError, SetupError, UsageError
from tithe.data.records import (
    BisectReport,
    Launch,
    Metric,
    ProbeStep,
    RunId,
    Scenario,
    Sha,
    Stage,
    Suspect,
    Verdict,
    VerdictName,
)
from tithe.runner import engine, stats
from tithe.runner.executor import BlockSpec, Executor
from tithe.runner.verdicts import Failures, effect_name

if TYPE_CHECKING:
    from tithe.data.config import DecisionPolicy
    from tithe.data.noise import Location, Noise

CONFIDENCE = 0.95
"""Posterior at which the search stops and the change is tested against its parent."""
SHARPER = 0.5
"""Part of the wanted effect that `same` must exclude here: what was reported is looked at more closely."""
MAX_PROBES = 200
MAX_TESTS = 3
"""Tests of a suspect against its parent that may fail before the search gives up."""
MAX_DEPTH = 2
"""Searches beside a step that was found, for further steps."""
LEAST = 0.001
"""Chance from which on a change is listed as a candidate."""
UNEXPLAINED = "an effect remains that no named change explains"


@dataclass
class _Lab:
    """What all searches of one bisection share: the machine, its budget, and the record of what was
    measured."""

    scenario: Scenario
    metric: Metric
    executor: Executor
    policy: DecisionPolicy
    run: RunId
    seed: int
    noise: Noise | None
    keep: Callable[[Sequence[Launch]], object]
    budget_s: float | None
    say: Callable[[str], None]
    start_s: float
    launches: int = 0
    block: int = 0
    tests: int = 0
    steps: list[ProbeStep] = field(default_factory=list)
    warm: set[Sha] = field(default_factory=set)
    why_not: dict[Sha, str] = field(default_factory=dict)
    """Changes that cannot be measured, and why."""

    def sink(self, launches: Sequence[Launch]) -> None:
        self.launches += len(launches)
        self.keep(launches)

    @property
    def spent(self) -> float:
        return self.executor.spent() - self.start_s

    @property
    def poor(self) -> bool:
        return self.budget_s is not None and self.spent >= self.budget_s

    def probe(self, good: Sha, sha: Sha) -> tuple[Launch, ...]:
        """One block of `sha` against `good`; the first one of a change is preceded by its warm-up."""
        if sha not in self.warm:
            self.warm.add(sha)
            for number in range(self.scenario.warmup):
                self.sink(self.executor.run_block(self._spec(good, sha, "warmup", number)))
        made = self.executor.run_block(self._spec(good, sha, "probe", self.block))
        self.block += 1
        self.sink(made)
        return made

    def _spec(self, good: Sha, sha: Sha, stage: Stage, number: int) -> BlockSpec:
        return BlockSpec(self.run, self.scenario, good, sha, stage, number, self.seed)

    def ends(self, good: Sha, bad: Sha) -> engine.FirstStage:
        noise = {} if self.noise is None else {self.metric.name: self.noise}
        return engine.first_stage(
            self.scenario,
            good,
            bad,
            self.executor,
            self.policy,
            run=self.run,
            seed=self.seed,
            noise=noise,
            sink=self.sink,
        )

    def test(self, parent: Sha, child: Sha) -> engine.Comparison:
        """A full A/B test. Blocks are numbered past all others, so that no launch is taken for an earlier
        one."""
        self.tests += 1
        return engine.compare(
            self.scenario,
            parent,
            child,
            self.executor,
            self.policy,
            run=self.run,
            seed=self.seed,
            noise={} if self.noise is None else {self.metric.name: self.noise},
            sink=self.sink,
            block_offset=1000 * self.tests,
        )


@dataclass(frozen=True)
class _Answer:
    """What one search found. `group` holds the indices that the step lies in, when it is sure of that."""

    reason: str
    culprit: int | None = None
    verification: Verdict | None = None
    chances: tuple[float, ...] = ()
    total: tuple[float, float] | None = None
    """Log effect between the ends and its error, where a number was followed."""


def bisect(
    scenario: Scenario,
    metric: Metric,
    good: Sha,
    bad: Sha,
    commits: Sequence[Sha],
    executor: Executor,
    policy: DecisionPolicy,
    *,
    run: RunId,
    seed: int,
    noise: Noise | None = None,
    prior: Mapping[Sha, float] | None = None,
    sink: Callable[[Sequence[Launch]], object],
    budget_s: float | None = None,
    progress: Callable[[str], None] | None = None,
) -> BisectReport:
    """Which of `commits` (first-parent, oldest first, the last is `bad`) moved `metric` since `good`.

    Follows a number (regressed or improved), or a crash where one end fails and the other does not. `prior`
    weighs the commits on any scale; those that it leaves out keep a little. Launches go to `sink` block by
    block.

    Raises:
        UsageError: `commits` is empty or does not end with `bad`.
    """
    if not commits or commits[-1] != bad or good in commits:
        raise UsageError(
            "the range does not lead from good to bad",
            where=f"{good}..{bad}",
            mend="good must be an ancestor of bad",
        )
    lab = _Lab(
        replace(scenario, gate=(metric.name,)),
        metric,
        executor,
        replace(policy, wanted_effect=max(policy.floor, SHARPER * policy.wanted_effect)),
        run,
        seed,
        noise,
        sink,
        budget_s,
        progress or _quiet,
        executor.spent(),
    )
    others: list[Sha] = []
    warnings: list[str] = []
    try:
        answer = _search(lab, good, commits, prior)
        if answer.culprit is not None:
            _look_beside(lab, good, commits, prior, answer, 1, others, warnings)
    except (LaunchError, SetupError) as error:
        answer = _Answer(f"the host could not go on: {error}")
    ranked = sorted(zip(commits, answer.chances, strict=False), key=lambda pair: -pair[1])
    skipped = {sha: why for sha, why in lab.why_not.items() if sha in commits}
    if skipped:
        warnings.append(f"{len(skipped)} of {len(commits)} changes could not be measured")
    culprit = None if answer.culprit is None else commits[answer.culprit]
    return BisectReport(
        run,
        scenario.name,
        metric.name,
        good,
        bad,
        culprit,
        tuple(Suspect(sha, chance) for sha, chance in ranked if chance >= LEAST),
        tuple(sha for sha in commits if sha in others),
        culprit is not None,
        lab.launches,
        lab.spent,
        tuple(lab.steps),
        "" if culprit is not None else answer.reason,
        answer.verification,
        tuple(warnings),
    )


def _search(lab: _Lab, good: Sha, commits: Sequence[Sha], prior: Mapping[Sha, float] | None) -> _Answer:
    """One step in one range: does it reproduce, where is it, is it confirmed."""
    bad = commits[-1]
    weights = None if prior is None else [prior.get(sha, 0.0) for sha in commits]
    lab.say(f"measuring the ends of {len(commits)} changes")
    if why := lab.executor.prepare(good):
        return _Answer(f"the good end is not runnable: {why}")
    if lab.executor.prepare(bad):
        return _Unrunnable(lab, good, commits, CrashPosterior(len(commits), prior=weights)).solve()
    first = lab.ends(good, bad)
    lab.warm.add(bad)
    failures = first.failures
    if first.dead:
        return _Answer(f"both ends fail: {failures.words()}")
    if first.broken:
        mended = first.broken < 0
        failed, total = (
            (failures.base_failed, failures.base) if mended else (failures.head_failed, failures.head)
        )
        rate = failed / total if first.flaky else FAIL_AFTER
        crash = CrashPosterior(len(commits), mended=mended, rate=rate, prior=weights)
        lab.steps.append(ProbeStep(bad, None, failures.words()))
        return _Crash(lab, good, commits, crash, mended).solve()
    reading = first.readings.get(lab.metric.name)
    if reading is None:
        return _Answer(f"too few launches of the ends gave a value: {failures.words()}")
    ratio, low, high = reading.ratios
    lab.steps.append(ProbeStep(bad, ratio, f"{first.blocks} blocks"))
    if lab.metric.name not in first.candidates:
        return _Answer(
            f"the effect does not reproduce: {ratio:.3f} times the good end ({low:.3f} to {high:.3f}) "
            f"after {first.blocks} blocks"
        )
    step = StepPosterior(
        len(commits), reading.mean, reading.sd, sd_df=stats.prior_df(lab.noise) or reading.df, prior=weights
    )
    for value in _statistics(first.launches, lab.metric, stats.location(lab.noise)):
        step.observe(-1, len(commits) - 1, value)
    answer = _Number(lab, good, commits, step, reading.sign).solve()
    return replace(answer, total=(reading.mean, reading.sd / math.sqrt(reading.n)))


class _Hunt:
    """The loop that all kinds of step share: probe what tells most, until one group is nearly certain; test
    it."""

    expected: VerdictName

    def __init__(
        self, lab: _Lab, good: Sha, commits: Sequence[Sha], posterior: StepPosterior | CrashPosterior
    ) -> None:
        self.lab, self.good, self.commits, self.posterior = lab, good, commits, posterior
        self.unconfirmed = 0

    def sha(self, index: int) -> Sha:
        return self.good if index < 0 else self.commits[index]

    def measurable(self, index: int) -> bool:
        return index < 0 or self.commits[index] not in self.lab.why_not

    def probe(self, index: int) -> None:
        """One more observation of a change, or its mark as not measurable."""
        raise NotImplementedError

    def learn(self, low: int, high: int, launches: Sequence[Launch]) -> None:
        """What a failed test of `high` against `low` measured goes into the posterior."""
        raise NotImplementedError

    def groups(self) -> list[tuple[int, int]]:
        """Runs of changes (first, last) that no measurement can tell apart: each ends with a measurable
        one."""
        ends = [index for index in range(len(self.commits)) if self.measurable(index)]
        if not ends or ends[-1] != len(self.commits) - 1:
            ends.append(len(self.commits) - 1)
        starts = [0, *(end + 1 for end in ends[:-1])]
        return list(zip(starts, ends, strict=True))

    def solve(self) -> _Answer:
        for _ in range(MAX_PROBES):
            chances = self.posterior.probabilities()
            groups = self.groups()
            masses = [float(chances[first : last + 1].sum()) for first, last in groups]
            best = max(range(len(groups)), key=lambda index: masses[index])
            first, last = groups[best]
            self.lab.say(f"probe {self.lab.block}: {_percent(masses[best])} on {self.sha(last)[:10]}")
            told = self.posterior.information()
            open_ = [index for index in range(len(self.commits) - 1) if self.measurable(index)]
            pick = max(open_, key=lambda index: (told[index], -index), default=None)
            if masses[best] < CONFIDENCE and pick is not None and told[pick] > 1e-9:
                if self.lab.poor:
                    return self._answer(f"the budget is used up at {_percent(masses[best])} certainty")
                self.probe(pick)
                continue
            if self.lab.poor:
                return self._answer("the budget is used up before the suspect was tested against its parent")
            found = self.test(first, last)
            if found is not None:
                return found
            if self.unconfirmed >= MAX_TESTS:
                return self._answer(
                    f"{self.unconfirmed} tests of the likeliest change against its parent did not confirm it"
                )
        return self._answer(f"no change became certain in {MAX_PROBES} probes")

    def test(self, first: int, last: int) -> _Answer | None:
        """The A/B test of a group against what comes before it; None where the search has to go on."""
        comparison = self.lab.test(self.sha(first - 1), self.sha(last))
        verdict = comparison.gate(self.lab.scenario)[0]
        if verdict.verdict == self.expected and verdict.confirmed:
            if first == last:
                return self._answer("", culprit=last, verification=verdict)
            unclear = [self.commits[index] for index in range(first, last)]
            why = next((self.lab.why_not[sha] for sha in unclear if sha in self.lab.why_not), "")
            return self._answer(
                f"it lies in the {last - first + 1} changes up to {self.sha(last)[:10]}, "
                f"of which {last - first} cannot be measured ({why})",
                verification=verdict,
            )
        if verdict.verdict == "error" and first > 0 and self.measurable(first - 1):
            self.lab.why_not[self.sha(first - 1)] = verdict.note
            self.lab.steps.append(ProbeStep(self.sha(first - 1), None, verdict.note))
        elif verdict.verdict == "broken" and self.expected != "broken" and last < len(self.commits) - 1:
            self.lab.why_not[self.sha(last)] = verdict.note
            self.lab.steps.append(ProbeStep(self.sha(last), None, verdict.note))
        else:
            self.unconfirmed += 1
            self.learn(first - 1, last, comparison.launches)
        return None

    def skip(self, index: int, why: str) -> None:
        self.lab.why_not[self.commits[index]] = why
        self.lab.steps.append(ProbeStep(self.commits[index], None, why))

    def measured(self, index: int) -> tuple[Launch, ...] | None:
        """A block of a change against the good end; None, and a mark, where it cannot be made runnable."""
        sha = self.commits[index]
        if why := self.lab.executor.prepare(sha):
            self.skip(index, why)
            return None
        for _ in range(2):
            made = self.lab.probe(self.good, sha)
            failures = Failures.of(made, self.lab.scenario.gate)
            if not failures.base_dead or self.expected == "fixed":
                return made
        raise LaunchError("the good end fails now", where=self.good, mend=failures.base_note)

    def _answer(
        self, reason: str, culprit: int | None = None, verification: Verdict | None = None
    ) -> _Answer:
        return _Answer(reason, culprit, verification, tuple(float(p) for p in self.posterior.probabilities()))


class _Number(_Hunt):
    """A step in a number."""

    posterior: StepPosterior

    def __init__(
        self, lab: _Lab, good: Sha, commits: Sequence[Sha], posterior: StepPosterior, sign: int
    ) -> None:
        super().__init__(lab, good, commits, posterior)
        self.expected = effect_name(sign, lab.metric.direction)

    def probe(self, index: int) -> None:
        made = self.measured(index)
        if made is None:
            return
        value = stats.block_statistic(made, self.lab.metric.name, stats.location(self.lab.noise))
        if value is None:
            self.skip(index, Failures.of(made, self.lab.scenario.gate).head_note or "it gave no value")
            return
        self.lab.steps.append(ProbeStep(self.commits[index], math.exp(value)))
        self.posterior.observe(-1, index, value)

    def learn(self, low: int, high: int, launches: Sequence[Launch]) -> None:
        for value in _statistics(launches, self.lab.metric, stats.location(self.lab.noise)):
            self.posterior.observe(low, high, value)


class _Crash(_Hunt):
    """Launches that begin to fail, or to pass."""

    posterior: CrashPosterior

    def __init__(
        self, lab: _Lab, good: Sha, commits: Sequence[Sha], posterior: CrashPosterior, mended: bool
    ) -> None:
        super().__init__(lab, good, commits, posterior)
        self.expected = "fixed" if mended else "broken"

    def probe(self, index: int) -> None:
        made = self.measured(index)
        if made is None:
            return
        failures = Failures.of(made, self.lab.scenario.gate)
        note = f"{failures.head_failed} of {failures.head} launches failed"
        self.lab.steps.append(ProbeStep(self.commits[index], None, note))
        self.posterior.observe(index, failures.head_failed, failures.head)

    def learn(self, low: int, high: int, launches: Sequence[Launch]) -> None:
        failures = Failures.of(launches, self.lab.scenario.gate)
        self.posterior.observe(low, failures.base_failed, failures.base)
        self.posterior.observe(high, failures.head_failed, failures.head)


class _Unrunnable(_Hunt):
    """A range whose bad end cannot be made runnable: set-up is what is bisected, and nothing is launched."""

    posterior: CrashPosterior
    expected = "broken"

    def probe(self, index: int) -> None:
        why = self.lab.executor.prepare(self.commits[index])
        self.lab.steps.append(ProbeStep(self.commits[index], None, why or "runnable"))
        self.posterior.observe(index, 2 if why else 0, 2)

    def learn(self, low: int, high: int, launches: Sequence[Launch]) -> None:  # noqa: ARG002
        for index in (low, high):
            self.posterior.observe(index, 2 if self.lab.executor.prepare(self.sha(index)) else 0, 2)


def _look_beside(
    lab: _Lab,
    good: Sha,
    commits: Sequence[Sha],
    prior: Mapping[Sha, float] | None,
    answer: _Answer,
    depth: int,
    others: list[Sha],
    warnings: list[str],
) -> None:
    """Searches both sides of a step that does not explain the whole effect between the ends."""
    verdict, at = answer.verification, answer.culprit
    if answer.total is None or at is None or verdict is None or not verdict.ratio:
        return
    if verdict.low is None or verdict.high is None:
        return
    rest = answer.total[0] - math.log(verdict.ratio)
    error = math.hypot(answer.total[1], (math.log(verdict.high) - math.log(verdict.low)) / 4)
    if abs(rest) < max(3 * error, math.log1p(verdict.threshold or 0.0)):
        return
    if lab.poor or depth > MAX_DEPTH:
        warnings.append(UNEXPLAINED)
        return
    found = False
    for start, some in ((good, commits[:at]), (commits[at], commits[at + 1 :])):
        if not some or some[-1] in lab.why_not or lab.poor:
            continue
        beside = _search(lab, start, some, prior)
        if beside.culprit is not None:
            found = True
            others.append(some[beside.culprit])
            _look_beside(lab, start, some, prior, beside, depth + 1, others, warnings)
    if not found:
        warnings.append(UNEXPLAINED)


def _statistics(launches: Sequence[Launch], metric: Metric, location: Location) -> list[float]:
    blocks: dict[tuple[str, int], list[Launch]] = {}
    for launch in launches:
        blocks.setdefault((launch.stage, launch.block), []).append(launch)
    found = (stats.block_statistic(block, metric.name, location) for block in blocks.values())
    return [value for value in found if value is not None]


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _quiet(line: str) -> None:  # noqa: ARG001
    return

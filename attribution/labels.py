"""What a bisection teaches the model: one culprit, and many innocents that nobody had to measure.

Only what is known is said. A change that could not be measured may be anything; where the effect did not
reproduce nothing is learnt; and a search that followed a crash looked at no clock, so it clears nobody of
being slow.
"""

from __future__ import annotations

from collections.abc import Sequence

from tithe.attribution.bisection import LEAST, UNEXPLAINED
from tithe.data.records import BisectReport, Outcome, Sha

CLEARED = 0.01
"""A change is called innocent when the chance that it was the one is below this."""
UNSURE = 0.9
"""Confidence in innocents, at most, where an effect remains that nobody explains."""


def labels(report: BisectReport, commits: Sequence[Sha], *, known_at: float) -> list[Outcome]:
    """Outcomes of the changes in the range against their own first parents.

    `commits` is the range that was bisected, oldest first. The culprit carries the verdict and numbers of its
    verification; innocents are `same` with the confidence 1 - P(it was the one).
    """
    if not report.candidates:
        return []
    parents = dict(zip(commits, (Sha(report.good), *commits), strict=False))
    found: list[Outcome] = []
    proof = report.verification
    if report.culprit is not None and report.verified and proof is not None:
        found.append(
            Outcome(
                parents[report.culprit],
                report.culprit,
                report.scenario,
                report.metric,
                proof.verdict,
                known_at,
                "bisect",
                "swept",
                ratio=proof.ratio,
                low=proof.low,
                high=proof.high,
                confidence=1.0 - (proof.p or 0.0),
                run=report.id,
            )
        )
    if proof is None or proof.verdict not in ("regressed", "improved"):
        return found
    chances = {suspect.sha: suspect.probability for suspect in report.candidates}
    unknown = {step.sha for step in report.steps if step.ratio is None}
    blamed = {report.culprit, *report.other_steps}
    most = UNSURE if UNEXPLAINED in report.warnings else 1.0
    for sha in commits:
        chance = chances.get(sha, LEAST)
        if sha in blamed or sha in unknown or chance >= CLEARED:
            continue
        sure = min(1.0 - chance, most)
        found.append(
            Outcome(
                parents[sha],
                sha,
                report.scenario,
                report.metric,
                "same",
                known_at,
                "bisect",
                "swept",
                confidence=sure,
                weight=sure,
                run=report.id,
            )
        )
    return found

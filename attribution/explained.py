"""How much of what a sweep found is explained by changes that are known already.

A release sweep sees all steps since the last release at once, those too that were caught when they came in. To bisect
for them again would spend the capacity that the check of the change had saved.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tithe.data.records import Outcome, Verdict

if TYPE_CHECKING:
    from tithe.data.config import DecisionPolicy


def explained_log(known: Iterable[Outcome], verdict: Verdict) -> float:
    """The sum of the log ratios that `known` single-change outcomes of this scenario and metric found."""
    total = 0.0
    for outcome in known:
        if (outcome.scenario, outcome.metric) != (verdict.scenario, verdict.metric):
            continue
        if outcome.verdict in ("regressed", "improved") and outcome.ratio is not None and outcome.ratio > 0:
            total += math.log(outcome.ratio)
    return total


def unexplained(verdict: Verdict, known: Iterable[Outcome], policy: DecisionPolicy) -> bool:
    """Whether the sweep's `verdict` leaves more than the wanted effect over after `known` (of its range).

    A scenario that broke is explained by a change that broke it. Where the sweep gives an interval, what is known
    must fall short of its nearer end by more than the reporting threshold, so that errors of both do not send
    a bisection after nothing.
    """
    relevant = [o for o in known if (o.scenario, o.metric) == (verdict.scenario, verdict.metric)]
    if verdict.verdict == "broken":
        return not any(outcome.verdict == "broken" for outcome in relevant)
    if verdict.ratio is None or verdict.ratio <= 0:
        return True
    found = math.log(verdict.ratio)
    sign = 1.0 if found > 0 else -1.0
    near = verdict.low if sign > 0 else verdict.high
    left = sign * (found - explained_log(relevant, verdict))
    left_at_least = (
        sign * (math.log(near) - explained_log(relevant, verdict)) if near is not None and near > 0 else left
    )
    return left > math.log1p(policy.wanted_effect) and left_at_least > math.log1p(policy.floor)

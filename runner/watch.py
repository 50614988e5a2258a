"""What weeks of decisions say of the detector itself: is one arm always slower, and do the hosts agree?

A change is as likely to make a scenario a little faster as a little slower, so that over many decisions about half of
the estimates should lie on either side, whatever was decided. Where nearly all lie on one, it is not the changes: the
arms differ in something else, such as where they stand, what is cached, or what is measured first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from tithe.data.records import MetricName, Outcome, ScenarioName

if TYPE_CHECKING:
    from tithe.data.noise import Noise

WEEKS = 8
"""How far back is looked."""
ODD = 0.001
"""A finding is named when chance alone shows as much this seldom."""
UNLIKE = 2.0
"""Ratio of the scatter on two hosts that is worth a word."""

Key = tuple[ScenarioName, MetricName]


def one_sided(outcomes: Iterable[Outcome], now: float) -> list[str]:
    """Scenarios and metrics whose estimates lie on one side, over the last weeks.

    Each change counts once. Imports and bisections are left out: nobody asked them of an ordinary change.
    """
    since = now - WEEKS * 7 * 86400
    sides: dict[Key, dict[str, bool]] = {}
    for outcome in outcomes:
        counts = outcome.source in ("ab", "sweep") and since <= outcome.known_at <= now
        if counts and outcome.ratio not in (None, 1.0):
            sides.setdefault((outcome.scenario, outcome.metric), {})[outcome.change] = (
                outcome.ratio or 0
            ) > 1
    found = []
    for (scenario, metric), votes in sorted(sides.items()):
        larger, n = sum(votes.values()), len(votes)
        if sign_test(larger, n) < ODD:
            most = max(larger, n - larger)
            word = "larger" if larger == most else "smaller"
            found.append(
                f"{scenario} {metric}: {most} of the last {n} decisions found head {word}, confirmed or not: suspect "
                "the measurement before the changes (`tithe noise` compares the places that arms stand in)"
            )
    return found


def sign_test(larger: int, n: int) -> float:
    """Two-sided chance of so uneven a count, from the binomial distribution with one half."""
    tail = sum(math.comb(n, k) for k in range(max(larger, n - larger), n + 1)) / 2**n
    return float(min(1.0, 2 * tail))


def unlike_hosts(noise: Mapping[str, Mapping[Key, Noise]]) -> list[str]:
    """Scenarios that scatter unlike on hosts, by F-test; `noise` by host. Decisions on one do not speak for the
    other, and a budget that fits one does not fit the other."""
    from scipy.special import fdtrc

    by: dict[Key, list[tuple[float, float, str]]] = {}
    for host, some in noise.items():
        for key, one in some.items():
            if one.df >= 4 and one.sd > 0:
                by.setdefault(key, []).append((one.sd, one.df, host))
    found = []
    for (scenario, metric), hosts in sorted(by.items()):
        low, high = min(hosts), max(hosts)
        ratio = high[0] / low[0]
        # Of all pairs the most unlike one is looked at.
        pairs = len(hosts) * (len(hosts) - 1) / 2
        if ratio >= UNLIKE and float(fdtrc(high[1], low[1], ratio**2)) * max(pairs, 1) < ODD:
            found.append(
                f"{scenario} {metric}: scatters {ratio:.1f} times as much on {high[2]} as on {low[2]}"
            )
    return found

"""What many scenarios say together of one proposal."""

from __future__ import annotations

import math
from collections.abc import Iterable

from tithe.data.records import Verdict

LEVEL = 0.95


def geometric_mean(verdicts: Iterable[Verdict]) -> tuple[float, float | None, float | None] | None:
    """Mean ratio over scenarios and the ends of its interval; None where nothing was measured.

    The scenarios are the sample: their log ratios scatter by noise and because a proposal helps one and not
    another, and the interval (Student's t) holds both. One scenario has no interval of this kind.
    """
    from scipy.special import stdtrit

    logs = [math.log(v.ratio) for v in verdicts if v.gate and v.ratio is not None and v.ratio > 0]
    if not logs:
        return None
    n = len(logs)
    mean = math.fsum(logs) / n
    if n < 2:
        return math.exp(mean), None, None
    sd = math.sqrt(math.fsum((value - mean) ** 2 for value in logs) / (n - 1))
    half = float(stdtrit(n - 1, 0.5 + LEVEL / 2)) * sd / math.sqrt(n)
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)

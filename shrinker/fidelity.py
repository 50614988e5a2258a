"""Does the cheaper run still execute the same code?

Recall, not similarity: what the cheaper run executes beyond the full one costs time but hides nothing. For a
time to first batch only what ran before the batch counts, and the cheaper run may run it at any moment: which
worker process comes first is chance.
"""

from __future__ import annotations

from dataclasses import dataclass

from tithe.runner.local import FunctionCount


@dataclass(frozen=True)
class Fidelity:
    """Shares (0 to 1) of the full run's functions that the cheaper run executes, and the ones it lost."""

    decisive: float
    """Of the functions that the decisive metric consists of."""
    whole: float
    """Of all functions of the full run."""
    lost: tuple[str, ...]
    """Those that `decisive` misses, by name."""


def compare(full: FunctionCount, cheap: FunctionCount, *, before_batch: bool) -> Fidelity:
    """How much of the full run's code the cheaper run executes.

    `before_batch` counts only what the full run executed before its first batch.
    """
    everything = set(full.functions)
    kept = set(cheap.functions)
    decisive = everything
    if before_batch and full.first_batch_s is not None:
        decisive = {name for name, seconds in full.functions.items() if seconds <= full.first_batch_s}
    return Fidelity(
        decisive=_share(decisive, kept), whole=_share(everything, kept), lost=tuple(sorted(decisive - kept))
    )


def _share(wanted: set[str], kept: set[str]) -> float:
    return len(wanted & kept) / len(wanted) if wanted else 1.0

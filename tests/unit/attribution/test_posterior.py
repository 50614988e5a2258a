"""The posterior over the position of a step."""

from __future__ import annotations

import numpy as np
import pytest

from tithe.attribution.posterior import CrashPosterior, StepPosterior, start_weights


def fed(
    values: dict[int, list[float]], count: int = 16, effect: float = 0.1, sd: float = 0.02
) -> StepPosterior:
    posterior = StepPosterior(count, effect, sd, sd_df=8)
    for at, some in values.items():
        for value in some:
            posterior.observe(-1, at, value)
    return posterior


def test_evidence_moves_the_mass_to_where_the_step_must_be() -> None:
    posterior = fed({15: [0.1, 0.11, 0.09], 7: [0.0, 0.01], 8: [0.1, 0.1]})
    chances = posterior.probabilities()
    assert chances.sum() == pytest.approx(1)
    assert chances.argmax() == 8
    assert chances[8] > 0.99
    size, noise = posterior.effect()
    assert size == pytest.approx(0.1, rel=0.1)
    assert 0.005 < noise < 0.04


def test_before_any_probe_the_prior_stands_and_the_middle_tells_most() -> None:
    posterior = fed({15: [0.1, 0.1]})
    assert posterior.probabilities() == pytest.approx(np.full(16, 1 / 16))
    assert int(posterior.information().argmax()) == 7
    assert posterior.information()[-1] == pytest.approx(0.0, abs=1e-9)


def test_one_outlier_is_not_a_step() -> None:
    calm = {15: [0.1, 0.1, 0.1], 7: [0.0, 0.0, 0.0]}
    posterior = fed({**calm, 3: [0.0, 1.0, 0.0]})
    assert posterior.probabilities()[8:].sum() > 0.95


def test_a_failed_test_of_a_suspect_against_its_parent_clears_it() -> None:
    posterior = fed({15: [0.1, 0.1], 7: [0.02], 8: [0.09]})
    before = posterior.probabilities()[8]
    for value in (0.0, 0.005, -0.01):
        posterior.observe(7, 8, value)
    assert posterior.probabilities()[8] < 0.05 < before


def test_information_follows_the_share_and_the_size() -> None:
    large, small = fed({15: [0.2] * 4}, effect=0.2), fed({15: [0.03] * 4}, effect=0.03)
    assert large.information().max() > 2 * small.information().max()
    assert large.information().max() <= np.log(2) + 1e-6


def test_prior_is_followed_but_rules_nothing_out() -> None:
    weights = start_weights(10, [0, 0, 5, 0, 0, 0, 0, 0, 0, 0])
    assert weights[2] == pytest.approx(0.91)
    assert weights.min() == pytest.approx(0.01)
    for useless in (None, [0.0] * 10, [float("nan")] * 10, [-1.0] * 10):
        assert start_weights(10, useless) == pytest.approx(np.full(10, 0.1))


def test_crash_is_found_by_passes_and_failures_either_way_round() -> None:
    crash = CrashPosterior(32)
    mended = CrashPosterior(32, mended=True)
    for at, failed in ((15, 0), (23, 2), (19, 0), (21, 2), (20, 2)):
        crash.observe(at, failed, 2)
        mended.observe(at, 2 - failed, 2)
    assert crash.probabilities().argmax() == mended.probabilities().argmax() == 20
    assert crash.probabilities()[20] > 0.95
    assert int(CrashPosterior(32).information().argmax()) == 15


def test_a_flaky_crash_needs_more_passes_to_clear_a_change() -> None:
    sure, flaky = CrashPosterior(8), CrashPosterior(8, rate=0.5)
    for posterior in (sure, flaky):
        posterior.observe(3, 0, 2)
    assert sure.probabilities()[:4].sum() < 0.01 < 0.1 < flaky.probabilities()[:4].sum()

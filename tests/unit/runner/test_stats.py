"""The moderated t and what is read off it, against scipy and against itself at its edges."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats as reference

from tithe.data.config import DecisionPolicy
from tithe.data.noise import Noise
from tithe.data.records import ArmName, Launch, LaunchId, LaunchStatus, MetricName, RunId, ScenarioName, Sha
from tithe.runner import stats

WALL = MetricName("wall")


def launch(arm: ArmName, value: float | None, status: LaunchStatus = "ok") -> Launch:
    values = {} if value is None else {"wall": value}
    return Launch(
        LaunchId("l"),
        RunId("r"),
        ScenarioName("s"),
        arm,
        Sha("0"),
        "first",
        0,
        0,
        "a",
        0.0,
        1.0,
        status,
        0,
        values,
    )


def test_block_statistic_is_the_difference_of_mean_logs() -> None:
    block = [launch("base", 1.0), launch("head", 2.0), launch("head", 8.0), launch("base", 4.0)]
    assert stats.block_statistic(block, WALL) == pytest.approx(math.log(4.0) - math.log(2.0))


@pytest.mark.parametrize("value", [None, 0.0, -1.0, math.nan, math.inf])
def test_values_without_a_logarithm_are_left_out(value: float | None) -> None:
    block = [launch("base", 1.0), launch("base", value), launch("head", 3.0)]
    assert stats.block_statistic(block, WALL) == pytest.approx(math.log(3.0))
    assert stats.block_statistic([launch("base", value), launch("head", 3.0)], WALL) is None


def test_failed_launches_are_not_fast_ones() -> None:
    block = [launch("base", 1.0), launch("head", 0.01, "failed"), launch("head", 1.0)]
    assert stats.block_statistic(block, WALL) == pytest.approx(0.0)


def test_without_history_it_is_the_plain_t_test() -> None:
    values = np.array([0.03, 0.05, 0.01, 0.04])
    seen = stats.see(values, None)
    assert stats.two_sided_p(seen.z) == pytest.approx(reference.ttest_1samp(values, 0.0).pvalue)


def test_history_counts_for_some_degrees_of_freedom_and_no_more() -> None:
    most = stats.MAX_PRIOR_DF
    sd, df = stats.moderated(3, 0.01**2, Noise(0.02, 400.0))
    assert df == most + 2
    assert float(sd) ** 2 == pytest.approx((most * 0.02**2 + 2 * 0.01**2) / (most + 2))
    assert [stats.prior_df(Noise(0.02, df)) for df in (0, 1.9, 2, 5, 8, 900)] == [0, 0, 2, 4, most, most]
    assert stats.prior_df(Noise(math.nan, 50.0)) == 0


TRIMMED = Noise(0.02, 50.0, "lowest", True, 0.05)


def test_one_block_that_is_far_off_is_pulled_in() -> None:
    values = [0.01, -0.01, 0.0, 0.005, 0.1, -0.005]
    seen, plain = stats.see(values, TRIMMED), stats.see(values, Noise(0.02, 50.0))
    assert abs(float(seen.mean)) < 0.011 < 0.016 < abs(float(plain.mean))
    assert float(seen.sd) < float(plain.sd)


def test_where_more_are_far_off_than_the_history_says_it_is_dropped_with_its_trimming() -> None:
    values = [0.01, 0.5, -0.4, 0.6, -0.3, 0.02]
    seen = stats.see(values, TRIMMED)
    plain = stats.see(values, None)
    assert float(seen.mean) == pytest.approx(float(plain.mean))
    assert float(seen.z) == pytest.approx(float(plain.z))
    assert float(seen.df) == len(values) - 1


def test_of_few_blocks_none_is_known_to_be_far_off() -> None:
    """Two that one burst hit look like an effect: until trimming can tell, the wider scatter decides."""
    narrow = Noise(0.02, 50.0, "lowest")
    burst = [0.1, 0.11]
    assert abs(float(stats.see(burst, TRIMMED).z)) < abs(float(stats.see(burst, narrow).z)) / 1.5
    many = [0.1, 0.11, 0.1, 0.12, 0.11]
    assert float(stats.see(many, TRIMMED).z) == pytest.approx(float(stats.see(many, narrow).z))


def test_arrays_are_judged_as_their_rows_are() -> None:
    rows = np.random.default_rng(3).normal(0, 0.04, (50, 4))
    for noise in (None, TRIMMED, Noise(0.02, 50.0)):
        seen = stats.see(rows, noise)
        for at, row in enumerate(rows):
            one = stats.see(row, noise)
            assert float(one.z) == pytest.approx(float(seen.z[at]))
            assert float(one.mean) == pytest.approx(float(seen.mean[at]))


def test_history_is_dropped_where_today_is_noisier_but_not_where_it_is_quieter() -> None:
    noisy, noisy_df = stats.moderated(4, 0.1**2, Noise(0.02, 50.0))
    quiet, quiet_df = stats.moderated(4, 0.0001**2, Noise(0.02, 50.0))
    assert float(noisy) == pytest.approx(0.1)
    assert float(noisy_df) == 3
    assert float(quiet_df) == stats.MAX_PRIOR_DF + 3
    assert float(quiet) > 0.01


def test_constant_values_are_no_division_by_nothing() -> None:
    sd, df = stats.moderated(3, 0.0, None)
    assert float(sd) == stats.MIN_SD
    assert np.isfinite(stats.z_of_t(0.1 / float(sd), df))


@pytest.mark.parametrize("t", [-50.0, -2.0, 0.0, 0.3, 6.0])
@pytest.mark.parametrize("df", [1, 2, 9, 30])
def test_z_of_t_and_back(t: float, df: int) -> None:
    z = float(stats.z_of_t(t, df))
    assert reference.norm.sf(abs(z)) == pytest.approx(reference.t.sf(abs(t), df), rel=1e-9)
    assert float(stats.t_of_z(z, df)) == pytest.approx(abs(t), abs=1e-7)


def test_stage_level_is_the_root_of_alarms_over_decisions_and_split_over_gates() -> None:
    policy = DecisionPolicy(false_alarms_per_week=1.0, decisions_per_week=10_000.0)
    assert stats.stage_alpha(policy) == pytest.approx(0.01)
    assert stats.stage_alpha(policy, gates=4) == pytest.approx(0.0025)


def test_threshold_is_the_floor_or_the_noise() -> None:
    policy = DecisionPolicy(floor=0.02)
    assert float(stats.threshold_log(policy, 0.001)) == pytest.approx(math.log(1.02))
    assert float(stats.threshold_log(policy, 0.05)) == pytest.approx(policy.noise_factor * 0.05)


def test_detectable_effect_shrinks_with_blocks_and_grows_with_noise() -> None:
    def seen(n: int, sd: float) -> float:
        return stats.detectable_log(n, sd, 8 + n - 1, alpha=0.01, max_blocks=12, d0=4, threshold=0.0)

    assert seen(12, 0.02) < seen(6, 0.02) < seen(2, 0.02) < seen(2, 0.04)


def test_a_confirmation_is_longer_for_what_is_harder_to_see() -> None:
    policy = DecisionPolicy()
    noise = Noise(0.02, 50.0)
    plans = [stats.planned(effect, 0.02, policy, noise, alpha=0.0141) for effect in (0.2, 0.08, 0.05, 0.03)]
    assert plans == sorted(plans)
    assert plans[0] == stats.FEWEST_CONFIRM
    assert plans[-1] > 5
    assert stats.planned(0.2, 0.02, policy, None, alpha=0.0141) >= 3

"""What must hold of the decision rule and the posterior for any samples."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tithe.attribution.posterior import StepPosterior
from tithe.data.config import DecisionPolicy
from tithe.data.noise import Noise
from tithe.runner import bounds, stats
from tithe.runner.verdicts import Failures, first_reading

POLICY = DecisionPolicy()
blocks = st.lists(st.floats(-0.5, 0.5), min_size=3, max_size=12)
histories = st.one_of(st.none(), st.builds(Noise, sd=st.floats(1e-5, 0.5), df=st.floats(0, 500)))


@settings(deadline=None)
@given(blocks, histories)
def test_swapping_the_arms_mirrors_the_reading(values: list[float], noise: Noise | None) -> None:
    one = first_reading(values, POLICY, noise, alpha=0.01)
    two = first_reading([-value for value in values], POLICY, noise, alpha=0.01)
    assert one is not None
    assert two is not None
    assert math.isclose(one.mean, -two.mean)
    assert (one.significant, one.relevant, one.same) == (two.significant, two.relevant, two.same)
    assert math.isclose(one.half, two.half)


@settings(deadline=None)
@given(blocks, histories)
def test_a_reading_is_finite_and_never_same_and_candidate_beyond_the_wanted_effect(
    values: list[float], noise: Noise | None
) -> None:
    reading = first_reading(values, POLICY, noise, alpha=0.01)
    assert reading is not None
    assert all(math.isfinite(number) for number in (reading.mean, reading.half, reading.sd, reading.z))
    if reading.same:
        assert abs(reading.mean) + reading.half <= math.log1p(POLICY.wanted_effect)
    if reading.candidate:
        assert abs(reading.mean) >= math.log1p(POLICY.floor)


@settings(deadline=None)
@given(
    st.integers(bounds.FEWEST, bounds.MOST),
    st.sampled_from(bounds.PRIOR_DFS),
    st.floats(1e-8, 0.9),
    st.floats(1e-8, 0.9),
)
def test_a_stricter_level_has_a_higher_bound(most: int, d0: int, one: float, two: float) -> None:
    low, high = sorted((one, two))
    n = max(bounds.first_look(d0), most)
    assert bounds.bound(n, most, low, d0) >= bounds.bound(n, most, high, d0)


@settings(deadline=None)
@given(st.integers(1, 12), st.integers(1, 12), st.data())
def test_fisher_is_what_scipy_says(base: int, head: int, data: st.DataObject) -> None:
    from scipy.stats import fisher_exact

    b, h = data.draw(st.integers(0, base)), data.draw(st.integers(0, head))
    failures = Failures(base, b, head, h)
    if failures.sign:
        rows = [[h, head - h], [b, base - b]]
        table = np.array(rows if failures.sign > 0 else rows[::-1])
        expected = float(fisher_exact(table, alternative="greater").pvalue)
        assert math.isclose(failures.p, expected, rel_tol=1e-6)
    else:
        assert failures.p == 1.0


@settings(deadline=None)
@given(
    st.integers(2, 40),
    st.lists(st.tuples(st.integers(0, 39), st.floats(-5, 5)), max_size=20),
    st.floats(0.01, 1.0),
    st.floats(0.001, 0.3),
)
def test_a_posterior_stays_a_distribution(
    count: int, seen: list[tuple[int, float]], effect: float, sd: float
) -> None:
    posterior = StepPosterior(count, effect, sd, sd_df=5)
    for at, value in seen:
        posterior.observe(-1, at % count, value)
    chances = posterior.probabilities()
    assert np.isfinite(chances).all()
    assert chances.min() >= 0
    assert math.isclose(chances.sum(), 1.0)
    assert (posterior.information() >= 0).all()


@settings(deadline=None)
@given(st.floats(0.001, 0.3), st.floats(0.0005, 0.2), histories)
def test_a_confirmation_is_planned_within_its_bounds(effect: float, sd: float, noise: Noise | None) -> None:
    n = stats.planned(effect, sd, POLICY, noise, alpha=0.0141)
    assert bounds.first_look(stats.prior_df(noise)) <= n <= POLICY.max_blocks

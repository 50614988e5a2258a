"""Which statistic of a block a history asks for: simulated launches, disturbed in one way each."""

from __future__ import annotations

import numpy as np
import pytest

from tithe.data.noise import CHOICE_DF, Noise, SampleColumns, choose, pooled, pulled_in

SD = 0.02


def columns(launches: np.ndarray) -> SampleColumns:
    """Of logs, shape (comparisons, blocks, 4), each block ABBA."""
    comparisons, blocks, _ = launches.shape
    return SampleColumns(
        series=np.zeros(launches.size, dtype=np.int64),
        comparison=np.repeat(np.arange(comparisons), blocks * 4),
        block=np.tile(np.repeat(np.arange(blocks), 4), comparisons),
        is_head=np.tile([False, True, True, False], comparisons * blocks),
        sha=np.tile([1, 2, 2, 1], comparisons * blocks),
        value=np.exp(launches.ravel()),
    )


def drawn(kind: str, shape: tuple[int, int, int]) -> np.ndarray:
    rng = np.random.default_rng(7)
    noise = rng.standard_normal(shape) * SD
    if kind == "upwards":
        return np.where(rng.random(shape) < 0.3, noise + rng.exponential(10 * SD, shape), noise)
    if kind == "downwards":
        return np.where(rng.random(shape) < 0.3, noise - rng.exponential(10 * SD, shape), noise)
    if kind == "outliers":
        return np.where(rng.random(shape) < 0.02, noise * 20, noise)
    return noise


@pytest.mark.parametrize("size", [3, 8])
@pytest.mark.parametrize(
    ("kind", "location", "trimmed"),
    [
        ("quiet", "mean", False),
        ("upwards", "lowest", True),
        ("downwards", "highest", True),
        ("outliers", "mean", True),
    ],
)
def test_the_statistic_that_scatters_least_is_chosen(
    kind: str, location: str, trimmed: bool, size: int
) -> None:
    found = pooled(columns(drawn(kind, (480 // size, size, 4))))[0]
    assert (found.location, found.trimmed) == (location, trimmed)


def test_its_scatter_is_that_of_what_is_decided_with() -> None:
    launches = drawn("upwards", (40, 12, 4))
    found = pooled(columns(launches))[0]
    blocks = launches[..., 1:3].min(-1) - launches[..., [0, 3]].min(-1)
    assert found.sd == pytest.approx(pulled_in(blocks, found.sd).std(axis=1, ddof=1).mean(), rel=0.1)


def test_a_short_history_chooses_nothing() -> None:
    launches = drawn("upwards", (1, CHOICE_DF, 4))
    assert pooled(columns(launches))[0].statistic == "mean"
    assert pooled(columns(np.concatenate([launches, launches[:, :8]], axis=1)))[0].statistic != "mean"


def test_where_nothing_is_gained_the_mean_stays() -> None:
    for seed in range(30):
        launches = np.random.default_rng(seed).standard_normal((10, 6, 4)) * SD
        assert pooled(columns(launches))[0].location == "mean"


def test_one_comparison_and_the_store_choose_alike() -> None:
    launches = drawn("upwards", (1, 60, 4))
    at = {
        "mean": launches[..., 1:3].mean(-1) - launches[..., [0, 3]].mean(-1),
        "lowest": launches[..., 1:3].min(-1) - launches[..., [0, 3]].min(-1),
        "highest": launches[..., 1:3].max(-1) - launches[..., [0, 3]].max(-1),
    }
    own = choose({name: values[0].tolist() for name, values in at.items()})  # type: ignore[misc]
    stored = pooled(columns(launches))[0]
    assert own.statistic == stored.statistic
    assert own.sd == pytest.approx(stored.sd, rel=1e-9)


def test_scatter_of_one_block_is_refused() -> None:
    with pytest.raises(ValueError, match="two blocks"):
        choose({"mean": [0.1], "lowest": [0.1], "highest": [0.1]})


def test_pulled_in_is_to_both_sides_of_the_median() -> None:
    values = np.array([0.0, 0.1, 0.2, 9.0, -9.0])
    assert pulled_in(values, 1.0).tolist() == [0.0, 0.1, 0.2, 2.6, -2.4]
    assert Noise(1.0, 9.0, "lowest", True).statistic == "trimmed lowest"

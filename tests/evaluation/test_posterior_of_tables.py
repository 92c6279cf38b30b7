"""The posterior of the rows of a frame: parameters, cards, draws of several chains in one array."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from expfam import Columns, Mixture
from expfam.displays import ClusterCards
from expfam.errors import DataError, DataTypeError
from expfam.evaluation.posterior import PartitionPosterior

QUICK = {"n_draws": 6, "n_steps": 6, "n_warmup": 5, "random_state": 0}
FRAMES = {
    "pandas": lambda df: df,
    "polars": pl.from_pandas,
    "pyarrow": lambda df: pa.Table.from_pandas(df, preserve_index=False),
}


def table():
    rng = np.random.default_rng(0)
    z = np.arange(90) % 2
    df = pd.DataFrame(
        {
            "size": rng.normal(9 * z, 1),
            "mass": np.exp(rng.normal(3 + 2 * z, 0.3)),
            "kind": np.array(["x", "y", "w"])[np.where(rng.random(90) < 0.8, z, 2)],
        }
    )
    return df.mask(rng.random(df.shape) < 0.1)


def numbers():
    rng = np.random.default_rng(0)
    return pd.DataFrame(rng.normal(size=(60, 3)) + 9 * (np.arange(60) % 2)[:, None], columns=["a", "b", "c"])


@pytest.mark.parametrize("missing", ["ignorable", "informative"])
@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_parameters_of_the_clusters_of_a_table(make, missing):
    df = make(table())
    mixture = Mixture(Columns.from_frame(df, missing=missing), 2, **QUICK).fit(df)
    found = mixture.posterior_.parameters(df)
    other = mixture.posterior_.parameters(make(table()[["kind", "size", "mass"]]))
    order = mixture.family_.entries_of_params()
    for name, interval in found.items():
        np.testing.assert_array_equal(interval.mean, other[name].mean)
        assert len(order[name.rpartition(".")[0]]) == interval.mean.shape[1]
    mean = found["gaussian_diag.mean"]
    assert sorted(np.round(mean.mean[:, 0] / 9)) == [0, 1]
    assert (mean.low <= mean.high).all()
    assert any("presence" in name for name in found) == (missing == "informative")
    mixture.posterior_.to_arviz(X=df)


@pytest.mark.parametrize("missing", ["ignorable", "informative"])
def test_cards_of_a_table_name_columns_and_levels(missing):
    mixture = Mixture(Columns.from_frame(table(), missing=missing), 2, **QUICK).fit(table())
    text = repr(ClusterCards(mixture, table()))
    assert "    size: " in text
    assert "    mass: " in text
    assert "    kind=x: " in text
    assert ("kind=missing" in text) == (missing == "informative")
    assert ("size missing: " in text) == (missing == "informative")
    assert "column " not in text


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_parameters_of_a_frame_of_floats_are_those_of_the_array(make):
    df = numbers()
    mixture = Mixture(n_components=2, **QUICK).fit(make(df))
    expected = mixture.posterior_.parameters(df.to_numpy())
    for frame in (df, df[["c", "a", "b"]]):
        found = mixture.posterior_.parameters(make(frame))
        np.testing.assert_array_equal(found["mean"].mean, expected["mean"].mean)
    assert repr(ClusterCards(mixture, make(df))) == repr(ClusterCards(mixture, make(df[["b", "c", "a"]])))
    with pytest.raises(DataError, match="only at fit 'b'"):
        mixture.posterior_.parameters(make(df.drop(columns="b")))
    with pytest.raises(DataTypeError, match="column 'b' held numbers at fit; row 0 holds 'long'"):
        ClusterCards(mixture, make(df.assign(b="long")))


def test_parameters_of_an_array_with_holes():
    X = numbers().to_numpy().copy()
    X[3, 1] = np.nan
    mixture = Mixture(n_components=2, **QUICK).fit(X)
    assert mixture.posterior_.parameters(X)["gaussian_diag.mean"].mean.shape == (2, 3)
    assert "    1: " in repr(ClusterCards(mixture, X))


def test_draws_of_several_chains_in_one_array():
    rng = np.random.default_rng(0)
    draws = rng.integers(0, 3, size=(2, 5, 8))
    log_joint = rng.normal(size=(2, 5))
    flat = PartitionPosterior(
        draws.reshape(10, 8), chain=np.repeat([0, 1], 5), log_joint=log_joint.ravel(), sample_stats={"s": np.arange(10)}
    )
    found = PartitionPosterior(draws, log_joint=log_joint, sample_stats={"s": np.arange(10).reshape(2, 5)})
    for name in ("chain", "log_joint", "n_clusters", "certainty"):
        np.testing.assert_array_equal(getattr(found, name), getattr(flat, name))
    np.testing.assert_array_equal(found.draws(1), flat.draws(1))
    np.testing.assert_array_equal(found.sample_stats["s"], flat.sample_stats["s"])
    assert repr(found.diagnostics) == repr(flat.diagnostics)
    assert PartitionPosterior(draws.tolist()).n_draws == 10


def test_arrays_of_chains_that_are_refused():
    draws = np.zeros((2, 5, 8), dtype=int)
    with pytest.raises(ValueError, match=r"draws of shape \(2, 5, 8\) say the chain of each draw: leave out chain="):
        PartitionPosterior(draws, chain=np.zeros(10, dtype=int))
    draws[1, 2, 3] = -4
    with pytest.raises(DataError, match="got -4 in draw 2 of row 3 of chain 1"):
        PartitionPosterior(draws)
    with pytest.raises(DataError, match=r"shape \(M, N\), or \(C, D, N\)"):
        PartitionPosterior(np.zeros((1, 2, 3, 4), dtype=int))
    with pytest.raises(DataError, match="log_joint must have shape"):
        PartitionPosterior(np.zeros((2, 5, 8), dtype=int), log_joint=np.zeros((5, 3)))

"""R-hat and effective sample sizes against analytic chains and plain definitions."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from expfam.protocols import Info
from expfam.samplers.chain.diagnostics import (
    _autocovariance,
    _rank_normal,
    bulk_ess,
    diagnose,
    rhat,
    tail_ess,
    without_rounding,
)
from expfam.samplers.chain.trace import Trace


def autoregressive(rho, *, chains=4, n=5000, seed=0):
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(chains, n)) * np.sqrt(1 - rho**2)
    x = np.empty((chains, n))
    x[:, 0] = rng.normal(size=chains)
    for t in range(1, n):
        x[:, t] = rho * x[:, t - 1] + noise[:, t]
    return x


@pytest.mark.parametrize("rho", [-0.3, 0.0, 0.5, 0.9])
def test_effective_size_of_autoregressive_chains(rho):
    sizes = [bulk_ess(autoregressive(rho, seed=seed)) for seed in range(5)]
    assert np.mean(sizes) == pytest.approx(20000 * (1 - rho) / (1 + rho), rel=0.08)
    assert all(rhat(autoregressive(rho, seed=seed)) < 1.02 for seed in range(5))


def test_effective_size_is_capped_for_antithetic_chains():
    x = autoregressive(-0.95)
    assert bulk_ess(x) == pytest.approx(20000 * np.log10(20000), rel=1e-12)


def test_chains_that_disagree():
    x = autoregressive(0.0, n=1000)
    shifted = x + np.array([0, 0, 0, 2.0])[:, None]
    assert rhat(shifted) > 1.2
    assert bulk_ess(shifted) < 30
    wider = x * np.array([1, 1, 1, 4.0])[:, None]
    assert rhat(wider) > 1.1  # the means agree: only the folded ranks show it
    drift = x + np.linspace(-2, 2, 1000)
    assert rhat(drift) > 1.1  # only halves of a chain show it
    assert rhat(np.repeat([[1.0], [2.0]], 10, axis=1)) == np.inf


def test_ranks_make_it_invariant_and_robust():
    x = autoregressive(0.5, n=1000)
    assert bulk_ess(np.exp(3 * x)) == pytest.approx(bulk_ess(x), rel=1e-12)
    assert np.isfinite(rhat(np.random.default_rng(0).standard_cauchy((4, 500))))
    z = np.random.default_rng(1).integers(0, 5, (3, 40)).astype(float)
    ranks = stats.rankdata(z).reshape(z.shape)
    np.testing.assert_allclose(_rank_normal(z), stats.norm.ppf((ranks - 3 / 8) / (z.size + 1 / 4)), atol=1e-13)


def test_rounding_errors_are_no_disagreement():
    values = np.where(np.random.default_rng(0).random((2, 50)) < 0.3, -123.4, -125.0)
    noisy = values + np.array([[0.0], [1e-12]])
    assert rhat(without_rounding(noisy)) == pytest.approx(rhat(values), rel=1e-12)
    assert np.isnan(rhat(without_rounding(np.full((2, 9), 7.0) + np.array([[0.0], [1e-13]]))))
    np.testing.assert_array_equal(without_rounding([np.nan, 1.0]), [np.nan, 1.0])
    np.testing.assert_array_equal(without_rounding([3.0, 1.0, 2.0]), [3.0, 1.0, 2.0])


def test_autocovariance_is_its_definition():
    x = autoregressive(0.7, chains=2, n=50)
    c = x - x.mean(axis=1, keepdims=True)
    expected = [[(chain[: 50 - lag] * chain[lag:]).sum() / 50 for lag in range(50)] for chain in c]
    np.testing.assert_allclose(_autocovariance(x), expected, atol=1e-13)


def test_split_rhat_by_hand():
    # two halves with means far apart and ranks 1..8: the value follows from the definition on the normal scores
    x = np.arange(8.0)
    z = stats.norm.ppf((np.arange(1, 9) - 3 / 8) / 8.25).reshape(2, 4)
    within, between = z.var(axis=1, ddof=1).mean(), z.mean(axis=1).var(ddof=1)
    assert rhat(x) == pytest.approx(np.sqrt(3 / 4 + between / within), rel=1e-12)


def test_tails_are_worse_where_they_stick():
    x = autoregressive(0.0, n=2000)
    assert tail_ess(x) > 4000
    stuck = x.copy()
    stuck[0, 900:1100] = 6.0
    assert tail_ess(stuck) < 0.2 * tail_ess(x)


def test_degenerate_draws():
    for function in (rhat, bulk_ess, tail_ess):
        assert np.isnan(function(np.ones((2, 10))))
        assert np.isnan(function([1.0, np.nan, 2.0, 3.0, 4.0]))
        with pytest.raises(ValueError, match="at least 4 draws"):
            function([[1.0, 2.0, 3.0]])


def test_odd_lengths_and_one_chain():
    x = autoregressive(0.3, chains=1, n=2001)
    assert bulk_ess(x[0]) == bulk_ess(x)
    assert bulk_ess(x) == bulk_ess(np.delete(x, 1000, axis=1))


def test_diagnose_reads_traces():
    x, traces = autoregressive(0.5, chains=3, n=400), [Trace() for _ in range(3)]
    for chain, trace in zip(x, traces):
        for t, value in enumerate(chain[: 400 if trace is not traces[0] else 390]):
            trace.append(Info(t + 1, value, int(value > 0) + 1, 1, 1, 0.0, {}), SimpleNamespace())
    found = diagnose(traces, n_warmup=40)
    assert found["objective"]["rhat"] == rhat(x[:, 40:390])
    assert found["n_clusters"]["bulk_ess"] == bulk_ess((x[:, 40:390] > 0) + 1)
    assert set(found) == {"objective", "n_clusters"}


def test_diagnose_leaves_out_the_warm_up_that_each_trace_knows():
    x, traces = autoregressive(0.5, chains=2, n=200), [Trace(n_warmup=n) for n in (40, 60)]
    for chain, trace in zip(x, traces):
        for t, value in enumerate(chain):
            trace.append(Info(t + 1, value, 1, 1, 1, 0.0, {}), SimpleNamespace())
    counted = np.array([x[0, 40:180], x[1, 60:]])
    assert diagnose(traces, columns=["objective"])["objective"]["rhat"] == rhat(counted)
    assert diagnose(traces, columns=["objective"], n_warmup=0)["objective"]["rhat"] == rhat(x)

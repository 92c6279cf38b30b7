"""A fit that will take long says so before it begins."""

import warnings

import numpy as np
import pytest

from expfam import Mixture
from expfam.errors import CapabilityError, DataWarning
from expfam.fitting import slow_fits
from expfam.samplers import CollapsedGibbs, Cycle, SplitMerge

RNG = np.random.default_rng(0)
TIMES = RNG.exponential(size=(300, 4))


@pytest.fixture
def low(monkeypatch):
    monkeypatch.setattr(slow_fits, "_MOST_MOVES", 300 * 3)


def fit(sampler, X=TIMES, family="exponential", n_steps=2):
    return Mixture(family, 3, sampler=sampler, n_steps=n_steps, n_warmup=2, random_state=0).fit(X)


@pytest.mark.parametrize(
    "sampler", ["gibbs", "fastex", CollapsedGibbs(), Cycle(SplitMerge(), CollapsedGibbs())], ids=str
)
def test_a_collapsed_sampler_of_many_rows_of_a_family_in_numpy_warns(low, sampler):
    pattern = r"4 steps will take .* to .* moves 300 rows one by one .*'exponential' is written in NumPy"
    with pytest.warns(DataWarning, match=pattern):
        fit(sampler)


def test_the_warning_names_the_faster_sampler(low):
    with pytest.warns(DataWarning, match="sampler='uncollapsed_gibbs' moves all rows together") as caught:
        fit("gibbs")
    assert caught[0].filename == __file__
    fit("uncollapsed_gibbs")


def test_it_comes_before_any_step(low, monkeypatch):
    monkeypatch.setattr("expfam.estimators.mixture.run_chains", None)  # a call fails
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DataWarning, match="will take"):
            fit("gibbs")


@pytest.mark.parametrize(
    ("sampler", "family", "n_steps"),
    [
        ("gibbs", "exponential", 1),
        ("gibbs", "gaussian_diag", 2),
        ("uncollapsed_gibbs", "exponential", 2),
        ("em", "exponential", 2),
    ],
)
def test_other_fits_do_not_warn(low, sampler, family, n_steps):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(sampler, family=family, n_steps=n_steps)


def test_the_limit_is_a_million_moves(monkeypatch):
    asked = []
    monkeypatch.setattr(slow_fits, "_moves_rows_one_by_one", asked.append)
    model, kernel = Mixture("exponential", 3, random_state=0).fit(TIMES).model_, CollapsedGibbs()

    class Rows:
        n_rows = 10_000

    for n_steps, n_asked in ((100, 0), (101, 1)):
        slow_fits.warn_of_slow_fit(kernel, model, Rows, n_steps, seed=0, start="auto")
        assert len(asked) == n_asked


def test_a_model_that_no_other_sampler_takes_gets_a_plain_remedy(low, monkeypatch):
    def refuse(self, model, data):
        raise CapabilityError("not for these weights")

    for kernel in (slow_fits.UncollapsedGibbs, slow_fits.SparseVariational):
        monkeypatch.setattr(kernel, "check", refuse)
    with pytest.warns(DataWarning, match="is written in NumPy. Take fewer rows or fewer steps"):
        fit("gibbs")

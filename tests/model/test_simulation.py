"""Draws of partitions and data from prior and predictive have the laws of the model."""

import numpy as np
import pytest
from scipy import sparse, stats
from tiny import FAMILIES, WEIGHTS

from expfam import DirichletProcess, MixtureModel, PitmanYor, Poisson, SymmetricDirichlet
from expfam.errors import CapabilityError
from expfam.families.base import Family
from expfam.model.enumeration import canonical, set_partitions
from expfam.model.simulation import draw_partition, draw_rows, draw_stick_labels, simulate, simulate_more

pytestmark = pytest.mark.filterwarnings("ignore:.*rows? (is|are) empty")

LEAST_P = 1e-5


def frequencies_p(drawn, probability):
    counts = np.array([drawn.count(p) for p in probability])
    expected = len(drawn) * np.array(list(probability.values()))
    assert counts.sum() == len(drawn)
    return stats.chisquare(counts, expected / expected.sum() * len(drawn)).pvalue


@pytest.mark.parametrize("weights", WEIGHTS)
def test_partitions_have_their_prior_probabilities(weights):
    weights, rng = WEIGHTS[weights], np.random.default_rng(0)
    drawn = [canonical(draw_partition(weights, 4, rng)) for _ in range(4000)]
    limit = weights.max_components or 4
    law = {p: np.exp(weights.log_prior(np.bincount(p))) for p in set_partitions(4) if max(p) < limit}
    assert sum(law.values()) == pytest.approx(1.0)
    assert frequencies_p(drawn, law) > LEAST_P


def test_partitions_given_the_first_labels_have_their_conditional_probabilities():
    weights, rng, given = PitmanYor(alpha=0.5, discount=0.3), np.random.default_rng(0), (0, 0, 1)
    drawn = [canonical(draw_partition(weights, 5, rng, given=given)) for _ in range(4000)]
    law = {p: np.exp(weights.log_prior(np.bincount(p))) for p in set_partitions(5) if p[:3] == given}
    assert frequencies_p(drawn, {p: value / sum(law.values()) for p, value in law.items()}) > LEAST_P


def test_stick_labels_are_those_of_the_process_cut_off():
    rng = np.random.default_rng(0)
    drawn = np.array([draw_stick_labels(DirichletProcess(2.0), 2, 3, rng) for _ in range(4000)])
    first = 1.0 / 3.0  # mean of Beta(1, 2)
    counts = np.bincount(drawn[:, 0], minlength=3)
    assert stats.chisquare(counts, 4000 * np.array([first, (1 - first) * first, (1 - first) ** 2])).pvalue > LEAST_P


def test_rows_of_a_cluster_share_their_parameter():
    family = Poisson(shape=2.0, rate=0.5).bind([[1], [3]])
    rng = np.random.default_rng(0)
    X = np.array([draw_rows(family, np.array([0, 1, 0]), rng)[:, 0] for _ in range(4000)])
    assert X.mean() == pytest.approx(4.0, abs=0.15)
    correlation = np.corrcoef(X.T)
    assert correlation[0, 2] == pytest.approx(8.0 / 12.0, abs=0.05)  # variance of the rate among all
    assert abs(correlation[0, 1]) < 0.06


def test_given_rows_stay_and_inform_those_of_their_cluster():
    family = Poisson(shape=2.0, rate=0.5).bind([[1], [3]])
    rng, given = np.random.default_rng(0), np.array([[40.0], [42.0]])
    X = np.array([draw_rows(family, np.array([0, 0, 0, 1]), rng, given=given)[:, 0] for _ in range(2000)])
    assert (X[:, :2] == [40, 42]).all()
    assert X[:, 2].mean() == pytest.approx((2 + 82) / 2.5, abs=0.7)
    assert X[:, 3].mean() == pytest.approx(4.0, abs=0.4)


def test_sparse_rows_may_be_given():
    family = Poisson(shape=2.0, rate=0.5).bind([[1, 0], [3, 1]])
    model = MixtureModel(family, DirichletProcess())
    labels, X = simulate_more(model, sparse.csr_array([[1, 0], [3, 1]]), [0, 1], 5, np.random.default_rng(0))
    assert X[:2].tolist() == [[1, 0], [3, 1]]
    assert labels[:2].tolist() == [0, 1]
    assert X.shape == (5, 2)


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_takes_what_its_model_draws(name):
    family, X = FAMILIES[name]
    model = MixtureModel(family, SymmetricDirichlet(3)).bind(X)
    labels, drawn = simulate(model, 7, np.random.default_rng(1))
    assert drawn.shape == (7, model.family.n_features_in_)
    assert np.isfinite(model.log_joint(drawn, labels))


def test_a_family_that_cannot_draw_is_refused_by_name():
    class Silent(Family):
        name, capabilities = "silent", frozenset()

        def sufficient_statistics(self, X):
            return np.asarray(X, dtype=float)

        def log_marginal(self, n, S):
            return np.zeros(len(n))

    with pytest.raises(CapabilityError, match="silent"):
        draw_rows(Silent().bind([[1.0], [2.0]]), np.zeros(3, dtype=int), np.random.default_rng(0))

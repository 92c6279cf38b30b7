"""Enumerated posteriors are those of the model's plain definition."""

import numpy as np
import pytest
from enumeration import exact_posterior
from tiny import FAMILIES, WEIGHTS

from expfam import Dataset, MixtureModel, Poisson
from expfam.model.enumeration import MOST_ROWS, ExactPosterior, canonical, set_partitions

pytestmark = pytest.mark.filterwarnings("ignore:.*rows? (is|are) empty")


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("name", FAMILIES)
def test_probabilities_are_those_of_the_definition(name, weights):
    family, X = FAMILIES[name]
    data = Dataset(X, family)
    model = MixtureModel(data.family, WEIGHTS[weights])
    partitions, pi = exact_posterior(model, data.X)
    exact = ExactPosterior(model, data)
    assert exact.labels.tolist() == [list(p) for p in partitions]
    np.testing.assert_allclose(exact.probability, pi, rtol=1e-9, atol=1e-300)
    log_joint = [model.log_joint(data, np.array(p)) for p in partitions[:5]]
    np.testing.assert_allclose(exact.log_joint[:5], log_joint, rtol=1e-10)


def test_partitions_are_found_by_their_labels():
    X = np.arange(5.0)[:, None]
    exact = ExactPosterior(MixtureModel(Poisson(), WEIGHTS["dirichlet_3"]).bind(X), X)
    assert [exact.row(p) for p in exact.labels] == list(range(len(exact)))
    assert exact.row(np.arange(5)) == -1  # five clusters where there are three


def test_the_number_of_open_partitions():
    far = np.array([[0.0], [1000.0]])
    model = MixtureModel(Poisson(shape=1.0, rate=0.01), WEIGHTS["dirichlet_process"])
    assert ExactPosterior(model.bind(far), far).n_effective == pytest.approx(1.0)
    same = np.zeros((1, 1))
    assert ExactPosterior(model.bind(same), same).n_effective == pytest.approx(1.0)


def test_too_many_rows_are_refused():
    X = np.zeros((MOST_ROWS + 1, 1))
    with pytest.raises(ValueError, match="10 rows have too many partitions to enumerate: give at most 9"):
        ExactPosterior(MixtureModel(Poisson(), WEIGHTS["pitman_yor"]).bind(X), X)


def test_numbers_of_partitions():
    assert [len(set_partitions(n)) for n in range(1, 8)] == [1, 2, 5, 15, 52, 203, 877]
    assert canonical([3, 3, 1, 7]) == (0, 0, 1, 2)

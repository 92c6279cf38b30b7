"""Draws whose scores are bounded by products of integers: the labels of all scores in double precision, row for row."""

import numpy as np
import pytest
from coded_states import FAMILIES, embedded, state_of, whole_labels
from enumeration import exact_posterior
from instruction_sets import SETS, output_under
from scipy import sparse
from tiny import FAMILIES as TINY
from visits import LIMIT, run_chain, worst_t

import expfam as ef
from expfam.errors import CapabilityError
from expfam.samplers import StochasticEM, UncollapsedGibbs
from expfam.samplers.uncollapsed import pruned
from expfam.samplers.uncollapsed.coded import coded_scores, draw_labels


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("kind", ["planted", "near", "noise", "ties", "zeros", "one cluster"])
def test_labels_are_those_of_all_scores(name, kind):
    state = state_of(name, kind)
    for _ in range(3):
        labels, extra = draw_labels(state, 1, coded_scores(state))
        np.testing.assert_array_equal(labels, whole_labels(state))
        assert 0.0 < extra["visits"] <= state.K
        state.n_steps += 1


@pytest.mark.parametrize("K", [1, 2, 31, 64, 333])
def test_any_number_of_clusters_and_of_rows(K):
    for n in (2, 63, 64, 65, 700):
        state = state_of("diagonal", "near", K=K, n=n)
        np.testing.assert_array_equal(draw_labels(state, 1, coded_scores(state))[0], whole_labels(state))


def test_rows_and_weights_that_have_no_bounds():
    state = state_of("spherical", "far")
    state.log_pi[[0, 3, 40]] = -np.inf
    labels = draw_labels(state, 1, coded_scores(state))[0]
    np.testing.assert_array_equal(labels, whole_labels(state))
    assert not np.isin(labels, [0, 3, 40]).any()


def test_a_row_without_a_finite_score_is_named():
    state = state_of("poisson", "near")
    state.Theta[:, 0] = -np.inf
    assert coded_scores(state) is None
    with pytest.raises(FloatingPointError, match="family 'poisson', datum 0: no component has a finite score"):
        UncollapsedGibbs(draw="pruned").draw_labels(state)


@pytest.mark.parametrize("n_threads", [2, 3, 4])
def test_labels_do_not_depend_on_threads(n_threads):
    state = state_of("diagonal", "near", n=9000)
    one, many = (draw_labels(state, n, coded_scores(state)) for n in (1, n_threads))
    np.testing.assert_array_equal(one[0], many[0])
    assert one[1] == many[1]


@pytest.mark.parametrize("isa", SETS)
def test_every_instruction_set_has_the_same_labels(isa):
    code = """
from test_pruned import FAMILIES, test_labels_are_those_of_all_scores as check
for name in FAMILIES:
    check(name, "near")
print("same")
"""
    assert output_under(isa, code, file=__file__).strip() == "same"


@pytest.mark.parametrize("name", ["gaussian_diag", "gaussian", "plain_poisson"])
def test_chains_follow_the_enumerated_posterior(name):
    family, X = TINY[name]
    model = ef.MixtureModel(family, ef.SymmetricDirichlet(3, alpha=0.6))
    partitions, pi = exact_posterior(model, X)
    assert worst_t(run_chain(UncollapsedGibbs(draw="pruned"), model, X, 1500, seed=8), partitions, pi) < LIMIT


@pytest.fixture
def fast_products(monkeypatch):
    monkeypatch.setattr(pruned, "has_byte_products", lambda: True)


@pytest.mark.usefixtures("fast_products")
@pytest.mark.parametrize(
    ("kind", "n", "is_pruned"), [("apart", 20_000, True), ("noise", 20_000, False), ("apart", 800, False)]
)
def test_integers_are_chosen_where_few_clusters_matter(kind, n, is_pruned):
    state = embedded(kind, n)
    coded, cost = pruned.preferred_codes(state)
    assert (coded is not None) is is_pruned
    assert cost <= pruned.dense_cost(state.data, state.K)
    labels, extra = UncollapsedGibbs().draw_labels(state)
    assert ("visits" in extra) is is_pruned
    if is_pruned:
        np.testing.assert_array_equal(labels, UncollapsedGibbs(draw="pruned").draw_labels(state)[0])


@pytest.mark.parametrize("has", [True, False])
def test_few_clusters_or_columns_are_drawn_densely(monkeypatch, has):
    monkeypatch.setattr(pruned, "has_byte_products", lambda: has)
    for state in (state_of("spherical", "planted", K=63, d=60), state_of("spherical", "planted", d=40)):
        assert pruned.preferred_codes(state)[0] is None
    assert (pruned.preferred_codes(embedded("apart"))[0] is None) is not has


def test_data_that_have_no_codes_are_refused():
    X = sparse.csr_array(np.eye(6))
    model = ef.MixtureModel(ef.Poisson(), ef.SymmetricDirichlet(2)).bind(X)
    with pytest.raises(CapabilityError, match=r"those of poisson are sparse: write UncollapsedGibbs\(draw='dense'\)"):
        UncollapsedGibbs(draw="pruned").init(model, X, seed=0)
    with pytest.raises(CapabilityError, match=r"write StochasticEM\(draw='dense'\)"):
        StochasticEM(draw="pruned").init(model, X, seed=0)
    wide = np.random.default_rng(0).normal(size=(20, 370))
    model = ef.MixtureModel(ef.Gaussian(), ef.SymmetricDirichlet(2)).bind(wide)
    with pytest.raises(CapabilityError, match=r"takes 65,536 statistics of a row at most, and gaussian has 69,005"):
        UncollapsedGibbs(draw="pruned").init(model, wide, seed=0)


def test_parts_of_the_data_draw_densely():
    kernel = UncollapsedGibbs()
    assert kernel.of_parts().draw == "dense"
    assert UncollapsedGibbs(draw="pruned").of_parts().draw == "pruned"

"""Chains over tables with holes visit partitions as often as the enumerated posterior says; wrong ones do not."""

import numpy as np
import pytest
from enumeration import canonical, exact_posterior
from visits import LIMIT, run_chain, worst_t

import expfam as ef
from expfam.families.generic import GenericComponents
from expfam.plugins.conformance import check_kernel
from expfam.samplers import (
    Canopy,
    CollapsedGibbs,
    Cycle,
    FastEx,
    RestrictedGibbsAllocator,
    SplitMerge,
    UncollapsedGibbs,
    UniformAnchors,
)

pytestmark = pytest.mark.filterwarnings("ignore:.*constant")

_ROWS = np.array(
    [
        [0.3, -1.0, 0.0, 0.0],
        [0.5, -0.7, 1.0, 0.0],
        [2.0, 1.5, 4.0, 1.0],
        [1.7, 2.2, 6.0, 2.0],
        [-0.4, 0.1, 1.0, 1.0],
        [2.3, 0.4, 3.0, 2.0],
    ]
)
WEIGHTS = {"dirichlet_process": ef.DirichletProcess(alpha=0.7), "dirichlet_3": ef.SymmetricDirichlet(3, alpha=0.6)}


def rows_with_holes(share):
    """Six rows; with the largest share one of them has no cell in the first two columns."""
    X = _ROWS.copy()
    holes = np.random.default_rng(4).permutation(X.size)[: round(share * X.size)]
    X.ravel()[holes] = np.nan
    if share >= 0.5:
        X[1, :2] = np.nan
    return X


def table(cls=ef.Columns, **options):
    real = ef.DiagonalGaussian(mean=0.2, mean_strength=0.3, shape=1.5, rate=0.7)
    parts = [(real, (0, 1)), (ef.Poisson(shape=0.8, rate=0.5), (2,)), (ef.Categorical(0.6, n_levels=3), (3,))]
    return cls(parts, **options)


def model_of(share, weights, cls=ef.Columns, **options):
    X = rows_with_holes(share)
    return ef.MixtureModel(table(cls, **options).bind(X), WEIGHTS[weights]), X


KERNELS = {
    "gibbs": (CollapsedGibbs(), 3000),
    "fastex": (FastEx("int8"), 1500),
    "fastex_hash": (FastEx("hash"), 600),
    "split_merge": (Cycle(CollapsedGibbs(), SplitMerge(n_moves=3, every=1)), 800),
}


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("name", KERNELS)
def test_collapsed_chains(name, weights, share):
    model, X = model_of(share, weights)
    kernel, n_steps = KERNELS[name]
    partitions, pi = exact_posterior(model, X)
    assert worst_t(run_chain(kernel, model, X, n_steps), partitions, pi) < LIMIT


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("name", KERNELS)
def test_long_collapsed_chains(name, weights, share):
    model, X = model_of(share, weights)
    partitions, pi = exact_posterior(model, X)
    assert worst_t(run_chain(KERNELS[name][0], model, X, 100_000, seed=2), partitions, pi) < LIMIT


@pytest.mark.parametrize("options", [{"missing": "informative"}, {"holes": "any"}])
def test_other_layouts(options):
    model, X = model_of(0.3, "dirichlet_process", **options)
    partitions, pi = exact_posterior(model, X)
    assert worst_t(run_chain(CollapsedGibbs(), model, X, 3000), partitions, pi) < LIMIT


UNCOLLAPSED = {"uncollapsed": UncollapsedGibbs(), "canopy_1": Canopy(variant=1), "canopy_2": Canopy(variant=2)}


def after_one_step(kernel, model, X, partitions, pi, n_starts):
    """Worst z-score of the partitions after one step from partitions drawn from the posterior."""
    data, rng = ef.Dataset(X, model.family), np.random.default_rng(3)
    place = {p: row for row, p in enumerate(partitions)}
    counts = np.zeros(len(partitions))
    for seed, start in enumerate(rng.choice(len(partitions), size=n_starts, p=pi)):
        state = kernel.init(model, data, seed=seed, start=np.array(partitions[start]))
        kernel.step(state)
        counts[place[canonical(state.labels)]] += 1
    common = pi * n_starts > 10
    counts, expected = np.append(counts[common], counts[~common].sum()), np.append(pi[common], pi[~common].sum())
    return np.abs((counts - n_starts * expected) / np.sqrt(n_starts * expected * (1 - expected))).max()


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("name", UNCOLLAPSED)
@pytest.mark.parametrize("n_starts", [400, pytest.param(20_000, marks=pytest.mark.slow)])
def test_uncollapsed_steps_keep_the_posterior(name, share, n_starts):
    model, X = model_of(share, "dirichlet_3")
    partitions, pi = exact_posterior(model, X)
    partitions, pi = zip(*[(p, weight) for p, weight in zip(partitions, pi) if weight > 0])
    assert after_one_step(UNCOLLAPSED[name], model, X, partitions, np.array(pi), n_starts) < 4.5


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_split_merge_moves_keep_the_laws_of_kernels(share):
    models = {name: model_of(share, name) for name in WEIGHTS}
    kernel = SplitMerge(anchors=UniformAnchors(), allocator=RestrictedGibbsAllocator(), n_moves=1, every=1)
    check_kernel(kernel, models, n_moves=1500)


# ---- wrong samplers are found out ------------------------------------------------------------------------------------


def test_holes_taken_for_zeros_are_found_out():
    model, X = model_of(0.5, "dirichlet_process")
    partitions, pi = exact_posterior(model, X)
    filled = np.nan_to_num(X)
    wrong = ef.MixtureModel(table().bind(filled), model.weights)
    assert worst_t(run_chain(CollapsedGibbs(), wrong, filled, 3000), partitions, pi) > LIMIT


class ClusterCounts(ef.Columns):
    """Columns that take the number of data of the cluster for that of the part."""

    def log_marginal(self, n, S):
        total = np.zeros(len(n))
        for part, _, _, sums in self._each(n, S):
            total += part.family.log_marginal(n, sums)
        return total

    def components(self, data, capacity, *, layout="features"):
        return GenericComponents(self, data, capacity)


def split_by_pattern(cls):
    """A table whose real columns have indicators, as if their family could not count columns."""
    X = rows_with_holes(0.5)
    parts = [(ef.Poisson(shape=0.8, rate=0.5), (0,)), (ef.Poisson(shape=0.4, rate=0.2), (1,))]
    return cls(parts).bind(np.abs(np.rint(X[:, [2, 3]]))), np.abs(np.rint(X[:, [2, 3]]))


def test_counts_of_the_cluster_in_place_of_the_part_s_are_found_out():
    family, X = split_by_pattern(ef.Columns)
    right = ef.MixtureModel(family, WEIGHTS["dirichlet_process"])
    partitions, pi = exact_posterior(right, X)
    assert worst_t(run_chain(CollapsedGibbs(), right, X, 3000), partitions, pi) < LIMIT
    wrong = ef.MixtureModel(split_by_pattern(ClusterCounts)[0], right.weights)
    assert worst_t(run_chain(CollapsedGibbs(), wrong, X, 800), partitions, pi) > LIMIT

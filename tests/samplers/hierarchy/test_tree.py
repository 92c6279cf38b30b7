"""The recursion, cuts and other forms of a tree against enumeration of everything it can be cut into."""

import math

import numpy as np
import pytest
from enumeration import set_partitions
from scipy.cluster.hierarchy import fcluster, is_monotonic, is_valid_linkage
from scipy.special import gammaln, logsumexp

from expfam import Dataset, Multinomial, Poisson, SphericalGaussian
from expfam.errors import ResourceError
from expfam.samplers.hierarchy.stored_forest import Forest
from expfam.samplers.hierarchy.tree import HierarchyTree


def random_children(n_leaves, rng, n_merges=None):
    live, children = list(range(n_leaves)), []
    for t in range(n_leaves - 1 if n_merges is None else n_merges):
        i, j = sorted(rng.choice(len(live), 2, replace=False))
        pair = live[i], live[j]
        live = [k for k in live if k not in pair] + [n_leaves + t]
        children.append(pair)
    return children


def tree_of(X, family, children, alpha):
    """Tree of given merges over data, its blocks scored by the family; and the log weight of any set of rows."""
    data = Dataset(X, family)
    phi = data.phi(0, data.n_rows)

    def log_block(rows):
        n, S = np.array([float(len(rows))]), phi[rows].sum(axis=0)[None]
        return math.log(alpha) + gammaln(n[0]) + data.family.log_marginal(n, S)[0]

    below = [[i] for i in range(data.n_rows)]
    for i, j in children:
        below.append(sorted(below[i] + below[j]))
    tree = HierarchyTree(children, [log_block(rows) for rows in below], [len(r) for r in below], alpha=alpha)
    return tree, below, log_block


def cuts(tree, node):
    """All partitions of the leaves below a node that the tree can be cut into, as lists of nodes."""
    found = [[node]]
    if node >= tree.n_leaves:
        i, j = tree.children[node - tree.n_leaves].tolist()
        found += [a + b for a in cuts(tree, i) for b in cuts(tree, j)]
    return found


def problems():
    rng = np.random.default_rng(5)
    counts = rng.poisson(2.0, size=(7, 3))
    counts[3] = counts[0]
    return [
        (counts, Multinomial(concentration=0.3), 0.4),
        (counts, Poisson(shape=1.5, rate=0.5), 1.0),
        (rng.normal(size=(7, 2)), SphericalGaussian(), 2.5),
    ]


@pytest.mark.parametrize("problem", range(3))
@pytest.mark.parametrize("seed", range(4))
def test_weight_posterior_and_cuts_are_those_of_enumeration(problem, seed):
    X, family, alpha = problems()[problem]
    children = random_children(len(X), np.random.default_rng(seed))
    tree, below, log_block = tree_of(X, family, children, alpha)
    root = tree.n_nodes - 1
    every = cuts(tree, root)
    weights = np.array([sum(log_block(below[k]) for k in blocks) for blocks in every])
    assert tree.log_weight[root] == pytest.approx(logsumexp(weights), rel=1e-12)
    p = np.exp(weights - logsumexp(weights))
    is_block = np.array([[k in blocks for k in range(tree.n_nodes)] for blocks in every])
    np.testing.assert_allclose(np.exp(tree.log_posterior()), p @ is_block, rtol=1e-9, atol=1e-300)
    assert set(blocks_of(tree.cut("map"))) == {tuple(below[k]) for k in every[int(weights.argmax())]}
    for size in range(1, tree.n_leaves + 1):
        of_size = [i for i, blocks in enumerate(every) if len(blocks) == size]
        chosen = every[max(of_size, key=lambda i: weights[i])]
        assert set(blocks_of(tree.cut(n_clusters=size))) == {tuple(below[k]) for k in chosen}


def blocks_of(labels):
    return [tuple(np.flatnonzero(labels == k).tolist()) for k in np.unique(labels)]


@pytest.mark.parametrize("problem", range(3))
def test_evidence_is_a_bound_of_the_mixture(problem):
    X, family, alpha = problems()[problem]
    tree, _, log_block = tree_of(X, family, random_children(7, np.random.default_rng(0)), alpha)
    constant = math.lgamma(alpha) - math.lgamma(alpha + 7)
    terms = [
        sum(log_block([i for i, l in enumerate(labels) if l == k]) for k in set(labels)) for labels in set_partitions(7)
    ]
    assert tree.log_evidence <= logsumexp(terms) + constant
    assert tree.log_evidence == pytest.approx(tree.log_weight[-1] + constant)


def test_the_papers_recursion_in_plain_numbers():
    X, family, alpha = problems()[1]
    children = random_children(7, np.random.default_rng(1))
    tree, below, log_block = tree_of(X, family, children, alpha)
    d, likelihood = [alpha] * 7, []
    marginal = [math.exp(log_block(rows) - math.log(alpha) - math.lgamma(len(rows))) for rows in below]
    likelihood = marginal[:7]
    for t, (i, j) in enumerate(children):
        n = len(below[7 + t])
        d.append(alpha * math.gamma(n) + d[i] * d[j])
        pi = alpha * math.gamma(n) / d[-1]
        likelihood.append(pi * marginal[7 + t] + (1 - pi) * likelihood[i] * likelihood[j])
        r = pi * marginal[7 + t] / likelihood[-1]
        assert tree.log_odds[t] == pytest.approx(math.log(r / (1 - r)), rel=1e-9, abs=1e-9)
        assert tree.log_weight[7 + t] == pytest.approx(math.log(d[-1]) + math.log(likelihood[-1]), rel=1e-12)


def test_odds_cut_takes_the_highest_nodes_and_map_is_not_finer():
    X, family, alpha = problems()[0]
    for seed in range(20):
        tree, below, _ = tree_of(X, family, random_children(7, np.random.default_rng(seed)), alpha)
        labels = tree.cut("odds")
        for leaf in range(7):
            above = [k for k in tree.path(leaf)[1:] if tree.log_odds[k - 7] >= 0]
            block = below[above[-1]] if above else [leaf]
            assert (labels[block] == labels[leaf]).all()
            assert (labels == labels[leaf]).sum() == len(block)
        map_labels = tree.cut("map")
        assert all(len(set(map_labels[list(block)])) == 1 for block in blocks_of(labels))


def test_scipy_takes_the_linkage_and_its_cut_refines_ours():
    for seed in range(20):
        X, family, alpha = problems()[seed % 3]
        tree, *_ = tree_of(X, family, random_children(7, np.random.default_rng(seed)), alpha)
        for height in ("odds", "rank"):
            Z = tree.linkage_matrix(height)
            assert is_valid_linkage(Z)
            assert is_monotonic(Z)
            assert Z[-1, 3] == 7
        Z = tree.linkage_matrix()
        flat, labels = fcluster(Z, math.log(2.0) * (1 + 1e-12), "distance"), tree.cut("odds")
        assert all(len(set(labels[flat == k])) == 1 for k in np.unique(flat))


def test_a_forest_has_all_forms_but_the_linkage():
    X, family, alpha = problems()[2]
    children = random_children(7, np.random.default_rng(3), n_merges=4)
    tree, below, log_block = tree_of(X, family, children, alpha)
    assert len(tree.roots) == 3
    every = [[]]
    for root in tree.roots:
        every = [head + tail for head in every for tail in cuts(tree, root)]
    weights = [sum(log_block(below[k]) for k in blocks) for blocks in every]
    assert tree.log_weight[tree.roots].sum() == pytest.approx(logsumexp(weights), rel=1e-12)
    for size in range(3, 8):
        chosen = max((b for b in every if len(b) == size), key=lambda b: sum(log_block(below[k]) for k in b))
        assert set(blocks_of(tree.cut(n_clusters=size))) == {tuple(below[k]) for k in chosen}
    assert tree.to_newick().count(";") == 3
    with pytest.raises(ValueError, match="one root; this forest has 3"):
        tree.linkage_matrix()
    with pytest.raises(ValueError, match="from 3, the number of roots, to 7"):
        tree.cut(n_clusters=2)


def test_newick_names_and_lengths():
    tree = HierarchyTree([[0, 1], [2, 3]], [-2.0, -2.0, -2.0, -3.0, -9.0], [1, 1, 1, 2, 3], alpha=1.0)
    assert tree.to_newick(["a", "b c", "it's"], height="rank") == "('it''s':2,(a:1,'b c':1):1);"
    assert tree.path(1) == [1, 3, 4]
    assert tree.leaves(3).tolist() == [0, 1]
    assert tree.leaves(2).tolist() == [2]
    with pytest.raises(ValueError, match="2 names for 3 leaves"):
        tree.to_newick(["a", "b"])


def test_one_leaf():
    tree = HierarchyTree([], [-1.5], [1], alpha=2.0)
    assert tree.log_evidence == pytest.approx(-1.5 - math.log(2.0))
    assert tree.cut().tolist() == tree.cut("map").tolist() == tree.cut(n_clusters=1).tolist() == [0]
    assert tree.to_newick() == "0;"
    assert tree.linkage_matrix().shape == (0, 4)


@pytest.mark.parametrize("children", [[[0, 0]], [[0, 3]], [[0, 5]], [[0, 1], [0, 2]]])
def test_children_that_make_no_forest_are_refused(children):
    with pytest.raises(ValueError, match=r"each must exist by then, and be joined once|leave"):
        HierarchyTree(children, np.zeros(3 + len(children)), np.ones(3 + len(children)), alpha=1.0)


def test_bad_requests():
    tree = HierarchyTree([[0, 1]], [-1.0, -1.0, -3.0], [1, 1, 2], alpha=1.0)
    with pytest.raises(ValueError, match="rule must be"):
        tree.cut("best")
    with pytest.raises(ValueError, match="n_clusters must be an integer"):
        tree.cut(n_clusters=3)
    with pytest.raises(IndexError, match="leaf 2 does not exist: there are 2"):
        tree.path(2)
    large = HierarchyTree(np.empty((0, 2)), np.zeros(1 << 15), np.ones(1 << 15), alpha=1.0)
    with pytest.raises(ResourceError, match="MiB; cut by odds"):
        large.cut(n_clusters=1 << 15)


def test_large_odds_do_not_overflow():
    tree = HierarchyTree([[0, 1], [2, 3]], [0.0, 0.0, 0.0, 2000.0, -4000.0], [1, 1, 1, 2, 3], alpha=1.0)
    assert tree.log_odds.tolist() == [2000.0, -6000.0]
    assert tree.log_weight[-1] == 2000.0
    assert np.isfinite(tree.log_posterior()[3])
    assert tree.log_posterior()[4] == -6000.0


def test_slots_after_stored_merges():
    forest = Forest(np.array([[2, 0], [3, 1]]), 3)
    assert forest.ids.tolist() == [0, 1, 4]
    assert forest.root.tolist() == [2, 2, 2]
    assert forest.is_live.tolist() == [False, False, True]

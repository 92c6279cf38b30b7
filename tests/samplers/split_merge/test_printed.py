"""The published split-merge formulas leave another law than the posterior; with the corrections they leave it alone."""

from pathlib import Path

import numpy as np
import pytest
from split_merge_printed import (
    KERNELS,
    Printed,
    anchor_law,
    bucket_law,
    collision,
    first_dart,
    models,
    subsets,
)

WRONG_BY = {"minhash_split": 0.3, "minhash_merge": 0.1, "naive_split": 0.2, "naive_merge": 0.03}  # at least, alone


@pytest.fixture(scope="module", params=models())
def printed(request):
    return Printed(*models()[request.param])


@pytest.mark.parametrize("method", KERNELS)
def test_formulas_as_printed_are_wrong_and_corrected_ones_exact(printed, method):
    make = getattr(printed, method)
    steps = [corrections for _, corrections in KERNELS[method]]
    alone, mixed = printed.distances(make(**steps[0]))
    assert alone > WRONG_BY[method]
    assert mixed > 0.02  # Gibbs updates in even turns do not mend it
    for halfway in steps[1:-1]:
        assert printed.distance(make(**halfway)) > 0.02
    P = make(**steps[-1])
    np.testing.assert_allclose(P.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    flow = printed.pi[:, None] * P
    np.testing.assert_allclose(flow, flow.T, rtol=0, atol=1e-12)
    assert max(printed.distances(P)) < 1e-10


def test_gibbs_updates_leave_the_posterior(printed):
    np.testing.assert_allclose(printed.pi @ printed.gibbs, printed.pi, rtol=0, atol=1e-12)


def test_equation_four_is_below_the_true_probability_and_often_zero():
    rng = np.random.default_rng(0)
    W = rng.gamma(0.7, size=(6, 5))
    below = zeros = 0
    for A in subsets(range(6)):
        if 0 < len(A) < 6:
            B = sorted(set(range(6)) - set(A))
            truth = bucket_law(W, A[0])[A]
            claimed = first_dart(W[list(A)], W[B])
            assert claimed <= truth + 1e-12
            below += claimed < truth - 1e-6
            zeros += claimed == 0 and truth > 1e-6
    assert below > 40  # of 62
    assert zeros > 10


def test_bucket_laws_are_those_of_drawn_hashes():
    """Weighted MinHash by darts: the first dart under a row's graph is its hash."""
    rng = np.random.default_rng(1)
    W = rng.integers(0, 4, size=(4, 3)) + np.array([0.5, 0.0, 0.0])
    law, size, seen = bucket_law(W, 0), 40_000, {}
    assert abs(sum(law.values()) - 1) < 1e-12
    for _ in range(size):
        columns, heights = rng.integers(3, size=80), 4 * rng.random(80)
        hashes = (heights < W[:, columns]).argmax(axis=1)
        bucket = tuple(np.flatnonzero(hashes == hashes[0]))
        seen[bucket] = seen.get(bucket, 0) + 1
    for bucket, p in law.items():
        assert abs(seen.get(bucket, 0) / size - p) < 5 * np.sqrt(p * (1 - p) / size) + 1e-9
    assert abs(collision(W[:2]) - np.minimum(W[0], W[1]).sum() / np.maximum(W[0], W[1]).sum()) < 1e-12


def test_anchors_prefer_what_they_should():
    X = np.array([[5.0, 0.0], [5.0, 0.1], [-5.0, 0.0], [-5.0, 0.2]])
    near, far = anchor_law(X, 1.0), anchor_law(X, -1.0)
    np.testing.assert_allclose(near.sum(axis=1), 1.0)
    assert near[0, 1] > 0.9 > 0.1 > far[0, 1]
    assert not near.diagonal().any()


def test_the_page_has_the_figures_of_the_matrices():
    page = (Path(__file__).resolve().parents[3] / "docs" / "split_merge.md").read_text(encoding="utf-8")
    made = [Printed(model, X) for model, X in models().values()]
    for method, steps in KERNELS.items():
        for place, (title, corrections) in enumerate(steps):
            figures = [x for own in made for x in own.distances(getattr(own, method)(**corrections))]
            row = " | ".join([("... " if place else "") + title, *(f"{abs(x):.3f}" for x in figures)])
            assert f"| {row} |" in page

"""Scores near the best one of a row are computed, the others bounded."""

import numpy as np
import pytest

from expfam.structures.rows import near_scores
from expfam.structures.rows.near_scores import NearScores, NearScratch, may_code


def made(kind, n=300, K=150, d=60, seed=0):
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=(K, d)) * (10.0 ** rng.integers(-3, 4, size=d) if kind == "unlike columns" else 1.0)
    gap = {"together": 0.05}.get(kind, 3.0)
    X = gap * theta[rng.integers(K, size=n)] + 0.5 * rng.normal(size=(n, d))
    X /= np.abs(theta).max(axis=0) ** 2 if kind == "unlike columns" else 1.0
    c = rng.normal(size=K) - 0.5 * gap * np.square(theta).sum(axis=1)
    if kind == "impossible":
        c[::3] = -np.inf
    return np.float32(X), np.float32(theta), np.float32(c)


@pytest.mark.parametrize("kind", ["apart", "unlike columns", "impossible"])
@pytest.mark.parametrize("n", [1, 31, 300])
def test_near_scores_are_exact_and_others_bounds(kind, n):
    X, theta, c = made(kind, n)
    out = np.empty((n, len(theta)), dtype=np.float32)
    near = NearScores(theta, c, np.abs(X).mean(axis=0))
    assert near.score(X, out, NearScratch(near))
    exact = X.astype(float) @ theta.T.astype(float) + c
    size = np.abs(X.astype(float)) @ np.abs(theta.T.astype(float)) + np.abs(np.maximum(c, -1e30))
    is_near = exact > exact.max(axis=1, keepdims=True) - 30.0
    assert (np.abs(out - exact)[is_near] <= 1e-6 * size[is_near]).all()
    assert (out >= exact - 1e-6 * size).all()
    far = ~is_near & (out != np.float32(exact))
    assert (out < out.max(axis=1, keepdims=True) - 29.0)[far].all()
    assert is_near.mean() < 0.1


def test_bounds_are_given_up_where_all_scores_are_near_and_tried_less_and_less_often():
    X, theta, c = made("together")
    near = NearScores(theta, 0.0 * c, np.abs(X).mean(axis=0))
    scratch, out = NearScratch(near), np.empty((len(X), len(theta)), dtype=np.float32)
    n_tried = 0
    for _ in range(200):
        before = scratch.n_tried
        assert not near.score(X, out, scratch)
        assert scratch.n_tried - before in (0, 32)  # the first rows alone
        n_tried += scratch.n_tried > before
    assert 5 <= n_tried <= 9


def test_sizes_decide_whether_codes_are_tried(monkeypatch):
    monkeypatch.setattr(near_scores, "has_byte_products", lambda: True)
    assert may_code(128, 48)
    assert not may_code(127, 48)
    assert not may_code(128, 47)
    assert not may_code(128, 65_537)
    monkeypatch.setattr(near_scores, "has_byte_products", lambda: False)
    assert not may_code(128, 48)

"""Variation of information and purity against their definitions, and as a metric."""

import numpy as np
import pytest

from expfam.errors import DataError
from expfam.evaluation.metrics import purity, variation_of_information


def entropy(labels):
    p = np.unique(labels, return_counts=True)[1] / len(labels)
    return -np.sum(p * np.log(p))


@pytest.fixture
def partitions():
    return np.random.default_rng(0).integers(0, 6, size=(3, 200))


def test_is_two_joint_minus_single_entropies(partitions):
    a, b, _ = partitions
    expected = 2 * entropy(a * 10 + b) - entropy(a) - entropy(b)
    assert variation_of_information(a, b) == pytest.approx(expected, rel=1e-12)
    assert variation_of_information(a, b, base="bits") == pytest.approx(expected / np.log(2), rel=1e-12)


def test_is_a_metric(partitions):
    a, b, c = partitions
    assert variation_of_information(a, a[:] + 5) == 0.0
    assert variation_of_information(a, b) == pytest.approx(variation_of_information(b, a), rel=1e-14)
    assert variation_of_information(a, c) <= variation_of_information(a, b) + variation_of_information(b, c)
    assert variation_of_information(np.zeros(8), np.arange(8)) == pytest.approx(np.log(8), rel=1e-14)


def test_labels_may_be_anything():
    assert variation_of_information(["x", "x", "y"], [-1, -1, 7]) == 0.0
    assert purity(["x", "x", "y"], [-1, -1, 7]) == 1.0


def test_purity_by_hand(partitions):
    a, b, _ = partitions
    expected = sum(np.bincount(a[b == k]).max() for k in np.unique(b)) / len(a)
    assert purity(a, b) == expected
    assert purity(a, np.arange(len(a))) == 1.0


def test_many_clusters_need_no_dense_table():
    labels = np.arange(300_000)  # a dense table of these would hold 720 GB
    assert variation_of_information(labels, labels[::-1]) == 0.0


def test_bad_arguments():
    with pytest.raises(DataError, match=r"shapes \(2,\), \(3,\)"):
        variation_of_information([0, 1], [0, 1, 2])
    with pytest.raises(DataError):
        purity([], [])
    with pytest.raises(ValueError, match="'nats' or 'bits'"):
        variation_of_information([0], [0], base="log2")

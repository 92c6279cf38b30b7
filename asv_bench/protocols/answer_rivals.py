"""k-means and scikit-learn's mixture on the same data: agreement with the true clusters, and CPU seconds."""

import sys
import warnings
from pathlib import Path
from time import process_time

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests" / "support"))  # the simple partitions stand there

from simple_partitions import coordinates, kmeans
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

COVARIANCES = {"gaussian": "full", "gaussian_diag": "diag", "gaussian_spherical": "spherical"}
MOST_PRODUCTS = 1e9  # of a pass of EM: rows x clusters x numbers of a covariance; beyond it takes minutes


def kmeans_of(data, truth, k, seed):
    """ARI and seconds of k-means of the rows as they are."""
    Z = next(iter(coordinates(data).values()))
    begin = process_time()
    labels = kmeans(Z, k, seed)
    return {"km ARI": ari(truth, labels), "km s": process_time() - begin}


def mixture_of(family, X, truth, k, seed):
    """ARI and seconds of GaussianMixture with the same covariances; without k, of the number with the best BIC."""
    kind = COVARIANCES.get(family)
    n_true = len(np.unique(truth))
    numbers = sorted({1, max(1, n_true // 2), n_true, 2 * n_true}) if k is None else [k]
    if kind is None or products(X, kind, max(numbers)) > MOST_PRODUCTS or max(numbers) > len(X):
        return {"GMM ARI": None, "GMM s": None}
    begin = process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fits = [GaussianMixture(number, covariance_type=kind, random_state=seed).fit(X) for number in numbers]
        best = min(fits, key=lambda fit: fit.bic(X)) if len(fits) > 1 else fits[0]
        labels = best.predict(X)
    return {"GMM ARI": ari(truth, labels), "GMM s": process_time() - begin}


def products(X, kind, k):
    n, d = X.shape
    return n * k * (d * d if kind == "full" else d)


def ari(truth, labels):
    return float(adjusted_rand_score(truth, labels))

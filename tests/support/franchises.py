"""Tiny data in groups whose posterior under a hierarchical Dirichlet process is enumerated."""

import numpy as np
from franchise_slow import evidence_of_sets, log_joints, posterior

from expfam import DiagonalGaussian, HierarchicalProcess, Multinomial, Poisson
from expfam.model.admixture import tokens_of

ALPHA, GAMMA = 1.3, 0.8
DOCUMENTS = {
    "two_documents": np.array([[3, 0], [1, 2]]),
    "three_documents": np.array([[2, 1], [0, 2], [1, 1]]),
}
ROWS = {
    "gaussian_rows": (
        DiagonalGaussian(mean=0.0, mean_strength=0.3, shape=1.5, rate=0.7),
        np.array([[0.3], [0.6], [-0.4], [1.9], [2.2], [0.1]]),
        [0, 0, 1, 1, 0, 1],
    ),
    "poisson_rows": (Poisson(shape=0.8, rate=0.5), np.array([[0], [1], [4], [3], [0], [5]]), [0, 1, 2, 2, 1, 0]),
}
NAMES = [*DOCUMENTS, *ROWS]


class Tiny:
    """Model, data and exact posterior of one problem.

    `X` are documents or rows, `groups` the groups of tokens or rows, sorted as the labels of a chain.
    """

    def __init__(self, name, *, alpha=ALPHA, gamma=GAMMA):
        if name in DOCUMENTS:
            self.X, family = DOCUMENTS[name], Multinomial(0.5)
            docs, words, shape = tokens_of(self.X)
            units, self.groups = np.eye(shape[1], dtype=int)[words], docs.tolist()
        else:
            family, self.X, self.groups = ROWS[name]
            units = self.X
        self.model = HierarchicalProcess(family, alpha, gamma).bind(self.X)
        self.evidence = evidence_of_sets(self.model.family, units)
        self.partitions, self.probability = posterior(self.model, self.evidence, self.groups)


def quadrature(name, *, n=24):
    """Posterior of partitions with both concentrations integrated under Gamma(1, 1) by Gauss and Laguerre."""
    nodes, weights = np.polynomial.laguerre.laggauss(n)
    tiny, total = Tiny(name), 0.0
    for a, wa in zip(nodes, weights):
        for g, wg in zip(nodes, weights):
            if wa * wg > 1e-9:
                logs = log_joints(tiny.model.with_concentrations(a, g), tiny.evidence, tiny.groups)
                total = total + wa * wg * np.exp(logs - tiny.evidence[-1])
    return tiny, total / total.sum()

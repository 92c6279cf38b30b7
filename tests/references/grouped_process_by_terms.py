"""Variational bound of rows in groups of unknown number from its definitions.

A slow oracle, one group after the other. The shared weights are those of `ProcessReference`; the evidence of a cluster
is a function that the caller gives.
"""

import numpy as np
from process_by_terms import ProcessReference
from scipy.special import gammaln, psi


def bound(reference: ProcessReference, of_row, weight, r, evidence):
    """The whole bound of responsibilities `r` (N, K).

    ``evidence(k, r_k)`` is the log evidence of a cluster's rows.
    """
    mean, logs, variance = reference.moments()
    alpha, M = reference.alpha, reference.alpha * mean
    total = reference.sticks()
    for g in np.unique(of_row[weight > 0]):
        rows = of_row == g
        N = np.append((weight[rows, None] * r[rows]).sum(axis=0), 0.0)
        a = M + N
        e_pi = psi(a) - psi(a.sum())
        # -log G(alpha beta) = log(alpha beta) - log G(1 + alpha beta), the last term above its parabola
        normaliser = np.log(alpha) + logs - gammaln(1.0 + M) - np.pi**2 / 12.0 * alpha**2 * variance
        total += gammaln(alpha) + normaliser.sum() + ((M - 1.0) * e_pi).sum()
        total -= gammaln(a.sum()) - gammaln(a).sum() + ((a - 1.0) * e_pi).sum()
        total += (N * e_pi).sum()
    log_r = np.log(np.where(r > 0, r, 1.0))
    total -= (weight[:, None] * r * log_r).sum()
    return float(total + sum(evidence(k, weight * r[:, k]) for k in range(r.shape[1])))

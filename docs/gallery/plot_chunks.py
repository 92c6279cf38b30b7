"""
Learning chunk by chunk
=======================

Rows come in ten chunks, and no chunk is kept. Variational inference learns from each; the line is the mean log density
of rows that are never shown.
"""

import matplotlib.pyplot as plt
import numpy as np

from expfam import Mixture

rng = np.random.default_rng(0)
centres = 4.0 * rng.normal(size=(30, 8))


def rows(n):
    """Draw n rows of thirty clusters."""
    return centres[rng.integers(0, 30, n)] + rng.normal(size=(n, 8))


unseen = rows(2000)
learner = Mixture("gaussian_diag", 30, sampler="variational", random_state=0)
score = [learner.partial_fit(rows(500)).score(unseen) for _ in range(10)]

figure, ax = plt.subplots(figsize=(5.6, 3.2), layout="constrained")
ax.plot(500 * np.arange(1, 11), score, marker="o")
ax.set_xlabel("rows learned")
ax.set_ylabel("nats a row, unseen rows")
ax.grid(alpha=0.3)

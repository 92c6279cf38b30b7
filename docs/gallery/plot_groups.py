"""
Cells of patients: rows in groups
=================================

All patients have the same kinds of cells, each patient in own shares. The bars are the shares that are found, patients
in the order of their largest kind.
"""

import matplotlib.pyplot as plt
import numpy as np

from expfam import GroupedMixture

rng = np.random.default_rng(0)
shares = rng.dirichlet(np.full(4, 0.4), size=40)
patient = np.repeat(np.arange(40), 50)
kind = np.concatenate([rng.choice(4, p=share, size=50) for share in shares])
cells = np.array([[0.0, 0.0], [3.5, 0.0], [0.0, 3.5], [3.5, 3.5]])[kind] + rng.normal(size=(2000, 2))
mixture = GroupedMixture("gaussian_diag", 4, random_state=0).fit(cells, groups=patient)

order = np.lexsort([mixture.group_weights_.max(axis=1), mixture.group_weights_.argmax(axis=1)])
figure, axes = plt.subplots(1, 2, figsize=(8.6, 3.2), layout="constrained", width_ratios=[1, 1.5])
axes[0].scatter(*cells.T, c=mixture.labels_, s=5, cmap="tab10", vmax=9)
axes[0].set(title="cells", xlabel="first column", ylabel="second column")
bottom = np.zeros(40)
for k, weights in enumerate(mixture.group_weights_[order].T):
    axes[1].bar(np.arange(40), weights, bottom=bottom, width=1.0, color=plt.get_cmap("tab10")(k))
    bottom += weights
axes[1].set(title="share of each kind, by patient", ylabel="share")
axes[1].set_xlabel("patient")

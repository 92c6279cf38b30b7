"""
From many clusters to few
=========================

Groups that are lopsided need several Gaussian clusters each. ``coarsen`` merges clusters into those that halves of the
rows find again. The curve shows how well the halves agree for each number of groups.
"""

import matplotlib.pyplot as plt
import numpy as np

from expfam import Mixture
from expfam.displays import CoarseningDisplay

rng = np.random.default_rng(0)
corners = np.array([[0, 0], [9, 0], [0, 9], [9, 9]])
X = corners[rng.integers(0, 4, 1200)] + 2.0 * rng.exponential(size=(1200, 2))
mixture = Mixture("gaussian", random_state=0).fit(X)
CoarseningDisplay.from_estimator(mixture).plot()

# %%
# The clusters of the mixture, and the groups after the merges:

figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.4), layout="constrained", sharey=True)
for ax, labels, name in zip(axes, [mixture.labels_, mixture.coarsen().labels_], ["clusters", "groups"]):
    ax.scatter(*X.T, c=labels, s=5, cmap="tab20")
    ax.set_title(f"{labels.max() + 1} {name}")
    ax.set_aspect("equal")

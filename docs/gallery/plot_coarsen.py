"""
From many clusters to few
=========================

Groups that are lopsided need several Gaussian clusters each. ``coarsen`` merges clusters into those that halves of the
rows find again. The curve shows how well the halves agree for each number of groups: best on four, as many as were
drawn, and little less on more. If you know the number, give it.
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
# The clusters of the mixture, the groups that halves find again, and as many groups as were drawn:

figure, axes = plt.subplots(1, 3, figsize=(8.4, 3.2), layout="constrained", sharey=True)
answers = {"mixture": mixture, "mixture.coarsen()": mixture.coarsen(), "mixture.coarsen(4)": mixture.coarsen(4)}
for ax, (line, answer) in zip(axes, answers.items()):
    ax.scatter(*X.T, c=answer.labels_, s=5, cmap="tab20", vmin=0, vmax=19)
    ax.set_title(f"{line}: {answer.n_components_}", fontsize="medium")
    ax.set_xlabel("first column")
axes[0].set_ylabel("second column")

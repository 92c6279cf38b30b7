"""
Gaussian clusters in the plane
==============================

Rows are drawn from ten Gaussians of unequal sizes and shapes; no number is given. Ellipses are two standard deviations
wide in each direction.
"""

import numpy as np

from expfam import Mixture
from expfam.displays import ClusterMeansDisplay, SizesDisplay

rng = np.random.default_rng(3)
kind = rng.choice(10, p=rng.dirichlet(np.full(10, 3.0)), size=2000)
centres = rng.uniform(-12, 12, size=(10, 2))
shapes = rng.normal(size=(10, 2, 2))
X = centres[kind] + np.einsum("nij,nj->ni", shapes[kind], rng.normal(size=(2000, 2)))
mixture = Mixture("gaussian", random_state=0).fit(X)
ClusterMeansDisplay.from_estimator(mixture, X).plot()

# %%
# Their sizes:

SizesDisplay.from_estimator(mixture).plot()

"""
Has the chain arrived
=====================

Each step of a sampler has a log joint and a number of clusters. Chains that begin far from each other should end at the
same height. Gibbs sampling moves one row at a time and may stay where it began; a warning then says that chains
disagree.
"""

import warnings

import numpy as np

from expfam import Mixture
from expfam.displays import TraceDisplay

rng = np.random.default_rng(0)
X = rng.normal(size=(900, 4)) + 3.0 * rng.normal(size=(9, 4))[rng.integers(0, 9, 900)]
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    gibbs = Mixture("gaussian_diag", sampler="gibbs", n_chains=3, n_steps=60, random_state=0).fit(X)
print(*(warning.message for warning in caught), sep="\n")
TraceDisplay.from_estimator(gibbs).plot()

# %%
# The automatic sampler searches a start, and also splits and merges whole clusters:

automatic = Mixture("gaussian_diag", n_chains=3, random_state=0).fit(X)
print(automatic.n_components_, "clusters, converged:", automatic.converged_)
TraceDisplay.from_estimator(automatic).plot()

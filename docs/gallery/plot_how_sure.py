"""
How sure are the clusters
=========================

Draws of the posterior say how many clusters there may be, and which rows belong together. Of the three species of iris,
one is apart and two overlap.
"""

from sklearn.datasets import load_iris

from expfam import Mixture
from expfam.displays import ClusterCountDisplay, SimilarityDisplay

X = load_iris().data
mixture = Mixture("gaussian", partition="vi", n_draws=400, n_chains=2, random_state=0).fit(X)
posterior = mixture.posterior_
ClusterCountDisplay.from_estimator(mixture).plot()

# %%
# How often two rows are together in the draws, rows in the order of their clusters. A dark block is a cluster that all
# draws have; pale parts are rows that lie between two clusters.

SimilarityDisplay.from_estimator(mixture).plot()

# %%
# With probability .9 the number of clusters lies between

posterior.n_clusters_interval(0.9)

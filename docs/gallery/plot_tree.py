"""
A tree with odds
================

Every merge of the tree has odds of being one cluster, so the tree itself says where to cut it. Colours show the odds;
below the merges that stand, the rows are clusters.
"""

from sklearn.datasets import load_wine
from sklearn.metrics import adjusted_rand_score

from expfam import BayesianHierarchy
from expfam.displays import DendrogramDisplay

X, grower = load_wine(return_X_y=True)
hierarchy = BayesianHierarchy("gaussian_diag").fit(X)
DendrogramDisplay.from_estimator(hierarchy).plot(n_tips=25)

# %%
# Clusters at even odds, and the agreement of a cut into three with the growers:

three = hierarchy.tree_.cut(n_clusters=3)
print(hierarchy.n_components_, "clusters;", round(adjusted_rand_score(grower, three), 2))

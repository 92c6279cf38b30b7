"""
Wines: a table of measurements
==============================

No family and no number of clusters is given. Held-out rows choose the family, the posterior chooses the clusters, and
``coarsen`` merges them into the groups that halves of the rows find again.
"""

import pandas as pd
from sklearn.datasets import load_wine

from expfam import Mixture
from expfam.displays import ScatterDisplay

wines = load_wine(as_frame=True)
mixture = Mixture(random_state=0).fit(wines.data)
groups = mixture.coarsen()
print(mixture.summary())
groups.clusters_[["size", "alcohol", "flavanoids", "color_intensity", "proline"]].round(1)

# %%
# The growers were never shown to the fit. Each row is a group, each column a grower.

pd.crosstab(groups.labels_, wines.target.to_numpy(), rownames=["group"], colnames=["grower"])

# %%
# The wines in the plane of two principal components, and of two measurements, coloured by their group:

ScatterDisplay.from_estimator(groups, wines.data).plot()

# %%
ScatterDisplay.from_estimator(groups, wines.data, columns=("flavanoids", "proline")).plot()

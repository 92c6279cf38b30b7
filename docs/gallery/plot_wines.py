"""
Wines: a table of measurements
==============================

No family and no number of clusters is given. Held-out rows choose the family, the posterior chooses the clusters, and
``coarsen`` merges them into the groups that halves of the rows find again.
"""

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.datasets import load_wine

from expfam import Mixture

wines = load_wine(as_frame=True)
mixture = Mixture(random_state=0).fit(wines.data)
groups = mixture.coarsen()
print(mixture.summary())
groups.clusters_[["size", "alcohol", "flavanoids", "color_intensity", "proline"]].round(1)

# %%
# The growers were never shown to the fit. Each row is a group, each column a grower.

pd.crosstab(groups.labels_, wines.target.to_numpy(), rownames=["group"], colnames=["grower"])

# %%
# Two measurements of each wine, coloured by its group:

figure, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
for k in range(groups.n_components_):
    rows = wines.data[groups.labels_ == k]
    ax.scatter(rows["flavanoids"], rows["proline"], s=22, label=f"group {k}")
ax.set_xlabel("flavanoids")
ax.set_ylabel("proline")
ax.legend(frameon=False)

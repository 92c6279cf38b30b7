"""Rows in groups that have names: cells of patients."""

import numpy as np
import pandas as pd

from expfam import GroupedMixture

rng = np.random.default_rng(0)
shares = rng.dirichlet([0.5, 0.5, 0.5], size=20)
kind = np.concatenate([rng.choice(3, p=share, size=40) for share in shares])
cells = pd.DataFrame(np.array([[0, 0], [6, 0], [0, 6]])[kind] + rng.normal(size=(800, 2)), columns=["area", "stain"])
cells["patient"] = np.repeat([f"patient {number}" for number in range(20)], 40)
mixture = GroupedMixture(n_components=3, random_state=0).fit(cells, groups="patient")
print(mixture.summary())
print(mixture.clusters_)
print(pd.DataFrame(mixture.group_weights_, index=mixture.group_names_).head())

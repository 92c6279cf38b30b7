"""
A table with text and missing cells
===================================

Numbers, yes-no columns and categories stand side by side, and a fifth of the ages is missing. The picture shows which
columns tell the clusters apart: log Bayes factors in nats, where 5 nats are a factor of 150.
"""

import numpy as np
import pandas as pd

from expfam import Mixture
from expfam.displays import ColumnEvidenceDisplay

rng = np.random.default_rng(0)
kind = rng.integers(0, 3, 500)
people = pd.DataFrame(
    {
        "age": rng.normal(np.array([28, 45, 70])[kind], 5).round(1),
        "income": rng.lognormal(np.array([7.2, 8.2, 7.4])[kind], 0.3).round(),
        "owner": rng.random(500) < np.array([0.1, 0.7, 0.8])[kind],
        "job": np.where(rng.random(500) < 0.7, np.array(["student", "clerk", "none"])[kind], "driver"),
        "star sign": rng.choice(["ram", "bull", "twins"], 500),
    }
)
people.loc[rng.random(500) < 0.2, "age"] = np.nan
mixture = Mixture(random_state=0).fit(people)
mixture.clusters_[["size", "age", "income", "owner", "job", "star sign"]].round(0)

# %%
# The star sign tells nothing, as it should.

ColumnEvidenceDisplay.from_estimator(mixture).plot()

# %%
# Missing ages are filled with what the rest of the row says:

missing = people["age"].isna()
filled = mixture.impute(people)[missing].head(5)
filled.assign(truth=np.array([28, 45, 70])[kind[filled.index]])[["job", "income", "age", "truth"]].round(0)

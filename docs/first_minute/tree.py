"""A tree over rows that have names."""

import pandas as pd

from expfam import BayesianHierarchy

animals = pd.DataFrame(
    {
        "legs": [4, 4, 4, 2, 2, 2, 6, 6, 8],
        "wings": [False, False, False, True, True, True, True, True, False],
        "milk": [True, True, True, False, False, False, False, False, False],
        "kilos": [20.5, 4.2, 450.0, 0.02, 3.1, 0.9, 0.0001, 0.0002, 0.001],
    },
    index=["dog", "cat", "horse", "sparrow", "goose", "crow", "bee", "wasp", "spider"],
)
hierarchy = BayesianHierarchy(random_state=0).fit(animals)
print(hierarchy.summary())
print(hierarchy.to_newick())

"""A pandas table with text and missing cells."""

from pathlib import Path

import pandas as pd

from expfam import Mixture

customers = pd.read_csv(Path(__file__).with_name("customers.csv"), index_col="customer")
mixture = Mixture(random_state=2).fit(customers)
print(mixture.summary())
print(mixture.clusters_)
print(mixture.impute(customers).head())

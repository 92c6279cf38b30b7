"""A Polars table with text and missing cells: all tables that come out are Polars frames."""

from pathlib import Path

import polars as pl

from expfam import Mixture

customers = pl.read_csv(Path(__file__).with_name("customers.csv")).drop("customer")
mixture = Mixture(random_state=2).fit(customers)
print(mixture.summary())
print(mixture.clusters_)
print(mixture.impute(customers).head())

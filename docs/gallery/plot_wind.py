"""
Directions of wind: angles in a table
=====================================

359 degrees and 1 degree are neighbours. Say that a column is an angle, and its clusters have a mean direction. Here
wind comes from three directions, each with a speed of its own; one reading in ten is missing.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from expfam import Columns, Mixture

rng = np.random.default_rng(0)
kind = rng.integers(0, 3, 600)
degrees = np.degrees(rng.vonmises(np.radians([0, 110, 230])[kind], 8.0)) % 360
wind = pd.DataFrame({"from": degrees.round(), "speed": rng.gamma(9.0, np.array([1.2, 0.4, 0.8])[kind]).round(1)})
wind.loc[rng.random(600) < 0.1, "from"] = np.nan
family = Columns.from_frame(wind, **{"from": "degrees"})
mixture = Mixture(family, random_state=0).fit(wind)
mixture.clusters_[["size", "from", "speed"]].round(1)

# %%
figure, ax = plt.subplots(figsize=(4.8, 4.8), layout="constrained", subplot_kw={"projection": "polar"})
ax.set_theta_zero_location("N")
ax.set_theta_direction(-1)
ax.scatter(np.radians(wind["from"]), wind["speed"], c=mixture.labels_, s=9, cmap="tab10", vmax=9)

"""A survey of yes and no."""

import numpy as np
import pandas as pd

from expfam import Mixture

rng = np.random.default_rng(0)
kind = rng.integers(0, 2, 400)
yes = np.array([[0.9, 0.8, 0.7, 0.1, 0.2, 0.1], [0.1, 0.1, 0.2, 0.9, 0.8, 0.9]])[kind]
answers = pd.DataFrame(rng.random((400, 6)) < yes, columns=["car", "garage", "flights", "bus", "bike", "train"])
mixture = Mixture(random_state=0).fit(answers)
print(mixture.summary())
print(mixture.clusters_)
print(mixture.explain())

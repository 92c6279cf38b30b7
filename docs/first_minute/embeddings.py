"""Embeddings: rows of numbers from a neural network."""

import numpy as np

from expfam import Mixture

rng = np.random.default_rng(0)
subject = rng.integers(0, 5, 1000)
vectors = (rng.normal(size=(5, 96))[subject] + rng.normal(size=(1000, 96))).astype(np.float32)
mixture = Mixture(random_state=0).fit(vectors)
print(mixture.summary())
print(mixture.predict(vectors[:10]))
print(mixture.probabilities_[:10])

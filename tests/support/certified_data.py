"""Few documents, and few rows in groups, of which samplers are certified; their models."""

import numpy as np

from expfam import AdmixtureModel, Multinomial, Poisson

RNG = np.random.default_rng(0)
WORDS = RNG.poisson(0.7, size=(30, 6))
ROWS = RNG.poisson(RNG.choice([1.0, 6.0], size=(60, 1)), size=(60, 2))
GROUPS = RNG.integers(0, 8, 60)
LINKS = np.full(60, -1)
LINKS[:4], LINKS[10:13] = 0, 1
ALPHA = [0.5, 0.3, 0.9]
TOPICS = AdmixtureModel(Multinomial(0.6), 3, alpha=ALPHA)
GROUPED = AdmixtureModel(Poisson(shape=1.5, rate=0.4), 3, alpha=ALPHA)

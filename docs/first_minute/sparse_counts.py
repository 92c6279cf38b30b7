"""Sparse counts, such as words of documents or reads of genes."""

import numpy as np
from scipy import sparse

from expfam import Mixture

rng = np.random.default_rng(0)
kind = rng.integers(0, 4, 500)
counts = sparse.csr_matrix(rng.poisson(rng.gamma(0.3, size=(4, 200))[kind]))
mixture = Mixture(random_state=0).fit(counts)
print(mixture.summary())
print(mixture.cluster_sizes_)

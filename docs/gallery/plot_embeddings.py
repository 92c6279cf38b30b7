"""
Embeddings of twelve subjects
=============================

Each row is a direction in 256 columns. Von Mises-Fisher clusters have a mean direction and a concentration each; their
number is not given. The map shows the two main axes of the mean directions, where some clusters lie over each other;
the fit sees all columns and tells them apart.
"""

import matplotlib.pyplot as plt
import numpy as np

from expfam import Mixture, VonMisesFisher

rng = np.random.default_rng(0)
subject = rng.integers(12, size=1500)
centres = rng.normal(size=(12, 256))
vectors = (centres[subject] + 2.0 * rng.normal(size=(1500, 256))).astype(np.float32)
mixture = Mixture(VonMisesFisher(normalize=True), random_state=0).fit(vectors)

directions = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
K = mixture.n_components_
means = np.array([directions[mixture.labels_ == k].mean(axis=0) for k in range(K)])
axes = np.linalg.svd(means - means.mean(axis=0), full_matrices=False)[2][:2]
x, y = axes @ directions.T

figure, ax = plt.subplots(figsize=(5.6, 4.0), layout="constrained")
points = ax.scatter(x, y, s=6, c=mixture.labels_, cmap="tab20", vmin=0, vmax=19)
figure.legend(*points.legend_elements(num=None), title="cluster", loc="outside right upper", frameon=False)
ax.set(xlabel="first axis of the means", ylabel="second axis of the means", xticks=[], yticks=[])
ax.set_title(f"{K} clusters of {len(vectors):,} embeddings")

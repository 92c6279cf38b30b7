"""
Topics that are bars
====================

A classic test of topic models: the words are the 25 pixels of a small image, and each topic is a row or a column of it.
A document mixes a few topics. The model sees only the documents, of which some are drawn first.
"""

import matplotlib.pyplot as plt
import numpy as np

from expfam import TopicModel

rng = np.random.default_rng(0)
bars = np.concatenate([np.kron(np.eye(5), np.ones(5)), np.kron(np.ones(5), np.eye(5))]) / 5
shares = rng.dirichlet(np.full(10, 0.1), size=600)
documents = np.array([rng.multinomial(100, share @ bars) for share in shares])


def draw(images):
    """Draw rows of 25 numbers as images beside each other."""
    _, axes = plt.subplots(1, len(images), figsize=(0.85 * len(images), 0.95), layout="constrained")
    for ax, image in zip(axes, images):
        ax.imshow(image.reshape(5, 5), cmap="gray_r")
        ax.set_xticks([])
        ax.set_yticks([])


draw(documents[:10])

# %%
# No number of topics is given. The topics that are found, the largest first:

model = TopicModel(None, random_state=0).fit(documents)
print(model.summary())
draw(model.components_[:10])

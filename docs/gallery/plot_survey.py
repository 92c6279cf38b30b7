"""
A survey of yes and no
======================

Each kind of people has a probability of yes for each question. The picture is a table of these probabilities, one row
for each cluster; other names of this model are latent class analysis and Bernoulli mixture.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from expfam import Mixture

rng = np.random.default_rng(0)
questions = ["car", "garage", "flights", "bus", "bike", "train", "dog", "cat"]
yes = np.array([[9, 8, 7, 1, 2, 1, 5, 4], [1, 1, 2, 9, 8, 8, 1, 5], [8, 9, 9, 9, 8, 9, 1, 1]]) / 10
kind = rng.choice(3, p=[0.5, 0.3, 0.2], size=600)
answers = pd.DataFrame(rng.random((600, 8)) < yes[kind], columns=questions)
mixture = Mixture("bernoulli", 3, random_state=0).fit(answers)

figure, ax = plt.subplots(figsize=(6.8, 2.4), layout="constrained")
probability = mixture.params_["probability"]
image = ax.imshow(probability, vmin=0, vmax=1, cmap="Blues", aspect="auto")
for (k, j), value in np.ndenumerate(probability):
    ax.text(j, k, f"{value:.2f}", ha="center", va="center", color="white" if value > 0.6 else "black")
ax.set_xticks(range(8), questions)
ax.set_yticks(range(3), [f"{size} people" for size in mixture.cluster_sizes_])
figure.colorbar(image, label="probability of yes")

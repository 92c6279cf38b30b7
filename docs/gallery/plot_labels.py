"""
A few labels go a long way
==========================

Of 1797 digits a few have labels. ``labels="classes"`` keeps known rows of two classes apart and lets a class have
several clusters. The line shows the share of right answers among the other rows.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from expfam import Mixture

pixels, digit = load_digits(return_X_y=True)
X = PCA(16, random_state=0).fit_transform(pixels)
chance = np.random.default_rng(0).random(len(X))
known_shares, right = [0.01, 0.02, 0.05, 0.1, 0.2], []
for share in known_shares:
    y = np.where(chance < share, digit, -1)
    mixture = Mixture("gaussian", labels="classes", random_state=0).fit(X, y)
    others = y < 0
    right.append((mixture.predict_class(X[others]) == digit[others]).mean())

figure, ax = plt.subplots(figsize=(5.6, 3.2), layout="constrained")
ax.plot(np.multiply(known_shares, 100), right, marker="o")
ax.set_xticks([1, 2, 5, 10, 20])
ax.set_xlabel("rows with a label, %")
ax.set_ylabel("right answers among the others")
ax.set_ylim(0.5, 1.0)
ax.grid(alpha=0.3)

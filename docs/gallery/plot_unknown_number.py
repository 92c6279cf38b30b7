"""
How many topics are there?
==========================

Documents of twelve topics are drawn, and the number is not told. Chains that begin with one, with twelve and with forty
topics come near the same number, and the draws say how sure it is.
"""

import matplotlib.pyplot as plt
import numpy as np

from expfam import HierarchicalProcess, Multinomial, TopicModel
from expfam.samplers import Cycle, TopicProcessGibbs, TopicProcessSplitMerge, sample

rng = np.random.default_rng(0)
words = rng.dirichlet(np.full(240, 0.05), size=12)
documents = np.array([rng.multinomial(80, w @ words) for w in rng.dirichlet(np.full(12, 0.2), size=400)])

# %%
# Exact splits and merges take turns with sweeps. A topic is large where it has at least a thousandth of the tokens:

kernel = Cycle(TopicProcessSplitMerge(), TopicProcessGibbs())
model = HierarchicalProcess(Multinomial(0.05))
chains = {n: kernel.init(model, documents, seed=0, n_clusters=n) for n in (1, 12, 40)}
traces = {n: sample(kernel, state, 200) for n, state in chains.items()}

figure, ax = plt.subplots(figsize=(6, 2.8), layout="constrained")
for n, trace in traces.items():
    ax.plot(trace.column("n_large"), label=f"begun with {n}")
ax.axhline(12, color="0.7", zorder=0)
ax.set(xlabel="step", ylabel="large topics", yscale="log")
ax.set_yticks([1, 12, 40], ["1", "12", "40"])
ax.minorticks_off()
ax.legend()

# %%
# A fit reports the topics that were there in half of the counted sweeps, and the posterior of the number:

topics = TopicModel(None, random_state=0).fit(documents)
numbers = topics.trace_.column("n_clusters")[-100:].astype(int)
figure, ax = plt.subplots(figsize=(4, 2.6), layout="constrained")
ax.bar(*np.unique(numbers, return_counts=True), color="0.6")
ax.xaxis.get_major_locator().set_params(integer=True)
ax.set(xlabel="topics that hold tokens", ylabel="counted sweeps")
print(topics.summary())
print("90% of the counted sweeps:", topics.trace_.n_clusters_interval(0.9))
print("weights of all documents:", topics.beta_[:12].round(2), "and the rest:", round(topics.rest_, 3))

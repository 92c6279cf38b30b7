"""Samplers of topics and of rows in groups with one error each, and their right twins."""

import numpy as np

from expfam.evaluation.admixture_checks import set_clusters
from expfam.samplers import GroupedGibbs, Kernel, TopicGibbs
from expfam.samplers.grouped.gibbs import conditional


def with_factors(model, alpha, eta):
    """The model with other pseudo-counts."""
    model = model.with_alpha(alpha * model.pseudocounts)
    return (
        model
        if eta == 1.0
        else model.with_family(model.family.with_hyper(concentration=eta * model.family.concentration))
    )


class OtherCounts:
    """Right sweeps with other pseudo-counts than the model's: `alpha` and `eta` are factors."""

    factors = (1.0, 1.0)

    def move(self, state):
        right = state.model
        state.set_model(with_factors(right, *self.factors))
        found = super().move(state)
        state.set_model(right)
        return found

    def reversed(self):
        return type(self)(**self.get_params() | {"backward": not self.backward})


class OtherTopics(OtherCounts, TopicGibbs):
    def __init__(self, *, alpha=1.0, eta=1.0, backward=False):
        super().__init__(learn_alpha=False, backward=backward)
        self.alpha, self.eta = alpha, eta

    @property
    def factors(self):
        return self.alpha, self.eta


class OtherGroups(OtherCounts, GroupedGibbs):
    def __init__(self, *, alpha=1.0, backward=False):
        super().__init__(learn_alpha=False, backward=backward)
        self.alpha = alpha

    @property
    def factors(self):
        return self.alpha, 1.0


class StaleTopics(TopicGibbs):
    """Right sweeps; at every third step two tokens change places without the counts being told."""

    def __init__(self, *, backward=False):
        super().__init__(learn_alpha=False, backward=backward)

    def reversed(self):
        return type(self)(backward=not self.backward)

    def move(self, state):
        found = super().move(state)
        if (state.n_steps // 1000) % 3 == 0:
            state.labels[[0, -1]] = state.labels[[-1, 0]]
        return found


class PlainSweep(Kernel):
    """Slow sweep over tokens or rows.

    `fault` is a function of (p, counts of clusters) that changes a law; `is_stale` draws all from the counts at the
    beginning of the sweep.
    """

    def __init__(self, *, fault=None, is_stale=False, backward=False):
        self.fault, self.is_stale, self.backward = fault, is_stale, backward

    def reversed(self):
        return type(self)(fault=self.fault, is_stale=self.is_stale, backward=not self.backward)

    def init(self, model, data, **options):
        return (TopicGibbs if data.groups is None else GroupedGibbs)(learn_alpha=False).init(model, data, **options)

    def move(self, state):
        rng = np.random.default_rng([state.seed, state.n_steps])
        laws = Laws(state)
        N = len(state.labels)
        before = state.labels.copy()
        for i in range(N - 1, -1, -1) if self.backward else range(N):
            p = laws.of(i, before if self.is_stale else state.labels)
            if self.fault is not None:
                sizes = np.bincount(np.delete(state.labels, i), minlength=p.size)
                p = self.fault(p, sizes)
            k = int(rng.choice(p.size, p=p / p.sum()))
            if k != state.labels[i]:
                labels = state.labels.copy()
                labels[i] = k
                set_clusters(state, labels)
        return N, 0, {}


class Laws:
    """Conditional law of the cluster of one token or row, from the labels."""

    def __init__(self, state):
        self.state, self.model = state, state.model
        if hasattr(state, "tokens"):
            words = np.repeat(np.arange(state.tokens.n_words), np.diff(state.tokens.word_start))
            self.words, self.docs = words, np.asarray(state.tokens.doc)

    def of(self, i, labels):
        if not hasattr(self.state, "tokens"):
            return conditional(self.state, i)
        K, eta = self.model.n_components, self.state.eta
        others = np.arange(len(labels)) != i
        by_doc, by_word, sizes = (
            np.bincount(labels[others & mask], minlength=K)
            for mask in (self.docs == self.docs[i], self.words == self.words[i], others)
        )
        return (by_doc + self.model.pseudocounts) * (by_word + eta[self.words[i]]) / (sizes + eta.sum())


def mass_of_one_more(p, sizes):
    """Give the clusters without rows together the mass of one more."""
    empty = np.count_nonzero(sizes == 0)
    return np.where(sizes == 0, p * (empty + 1) / max(empty, 1), p)


def tempered(p, sizes):
    """Draw at a temperature 3 % off."""
    return p**1.03

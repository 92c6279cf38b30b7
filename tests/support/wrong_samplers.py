"""Samplers with one error each, and their right twins: what a certificate must tell apart."""

import numpy as np

from expfam import DirichletProcess, PitmanYor
from expfam.model.simulation import draw_partition
from expfam.samplers import CollapsedGibbs, CollapsedState, Kernel, UpdateHyper
from expfam.samplers.chain.kernel import OPPOSITE
from expfam.samplers.collapsed.gibbs import conditional


class OnPartitions(Kernel):
    """Kernel whose subclasses write `next_labels(state, labels, rng)`; slow and plain."""

    state_type = CollapsedState

    def init_state(self, model, data, labels, *, seed):
        return CollapsedState(model, data, labels, seed=seed)

    def reversed(self):
        return self

    def move(self, state):
        rng = np.random.default_rng([state.seed, state.n_steps])
        settle(state, self.next_labels(state, state.partition, rng))
        return state.data.n_rows, 0, {}


def settle(state, labels):
    """Give a state other labels."""
    state.take(CollapsedState(state.model, state.data, labels, seed=state.seed, n_steps=state.n_steps))


def log_joint(state, labels):
    """Log joint of a partition, from the statistics of the labels."""
    labels = np.unique(labels, return_inverse=True)[1]
    return CollapsedState(state.model, state.data, labels, seed=0).log_joint


class OtherModel(CollapsedGibbs):
    """Right steps for another model: `init` puts it into the state."""

    def init(self, model, data, **options):
        return super().init(model.with_weights(DirichletProcess(3.0)), data, **options)


class PriorDraws(OnPartitions):
    """Draws of the prior, whatever the data."""

    def next_labels(self, state, labels, rng):
        return draw_partition(state.model.weights, labels.size, rng)


class Still(OnPartitions):
    """No move at all: exact, and never anywhere but at its start."""

    def next_labels(self, state, labels, rng):
        return labels


class OtherWeights(CollapsedGibbs):
    """Right sweeps under other weights than the model's."""

    def __init__(self, *, order="sequential", strength=1.0, discount=0.0):
        super().__init__(order=order)
        self.strength, self.discount = strength, discount

    def reversed(self):
        return type(self)(order=OPPOSITE[self.order], strength=self.strength, discount=self.discount)

    def move(self, state):
        right = state.model
        weights = right.weights.with_hyper(alpha=self.strength * right.weights.alpha)
        if self.discount:
            weights = PitmanYor(alpha=weights.alpha, discount=self.discount)
        state.set_model(right.with_weights(weights))
        found = super().move(state)
        state.set_model(right)
        return found


class PlainGibbs(OnPartitions):
    """Gibbs sweep whose conditional laws may have a fault: a function of (p, state, i) that changes them."""

    def __init__(self, *, fault=None, order="sequential"):
        self.fault, self.order = fault, order

    def reversed(self):
        return type(self)(fault=self.fault, order=OPPOSITE[self.order])

    def move(self, state):
        rng = np.random.default_rng([state.seed, state.n_steps])
        N = state.data.n_rows
        for i in range(N) if self.order == "sequential" else range(N - 1, -1, -1):
            p = conditional(state, i)
            if self.fault is not None:
                p = self.fault(p, state, i)
            slot = int(rng.choice(p.size, p=p / p.sum()))
            if slot != state.labels[i]:
                labels = state.labels.copy()
                labels[i] = slot
                settle(state, np.unique(labels, return_inverse=True)[1])
        return N, 0, {}


def own_row_left_in(p, state, i):
    """Score a row in its own cluster with the row still in it."""
    old = state.labels[i]
    p[old] *= np.exp(state.components.log_predictive(i, [old])[0] - state.components.log_predictive_self(i, old))
    return p


def mass_of_one_more_cluster(p, state, i):
    """Give a new cluster the mass that it has beside one cluster more."""
    counts = np.bincount(state.labels, minlength=p.size)
    counts[state.labels[i]] -= 1
    B = np.count_nonzero(counts)
    mass = np.exp(state.model.weights.log_new_mass(state.data.n_rows - 1, B + 1))
    new = counts == 0
    p[new] *= mass[B + 1] / mass[B] if mass[B] > 0 else 0.0
    return p


def tempered(p, state, i):
    """Draw at a temperature 3 % off."""
    return p**1.03


class PlainMetropolis(OnPartitions):
    """Moves of random rows, proposed in proportion to sizes; `sign` of the proposal's part of the ratio."""

    def __init__(self, *, sign=1.0, n_moves=3):
        self.sign, self.n_moves = sign, n_moves

    def next_labels(self, state, labels, rng):
        for _ in range(self.n_moves):
            labels = self._moved(state, labels, rng)
        return labels

    def _moved(self, state, labels, rng):
        i = int(rng.integers(labels.size))
        counts = np.bincount(np.delete(labels, i), minlength=labels.max() + 2)
        log_q = np.log(np.where(counts > 0, counts, 0.0) ** 2 + (counts == 0) / np.count_nonzero(counts == 0))
        k = int(rng.choice(counts.size, p=np.exp(log_q) / np.exp(log_q).sum()))
        other = labels.copy()
        other[i] = k
        other = np.unique(other, return_inverse=True)[1]
        if other.max() + 1 > (state.model.weights.max_components or labels.size):
            return labels
        back = sum_of_new(log_q, counts, labels[i]) - sum_of_new(log_q, counts, k)
        ratio = log_joint(state, other) - log_joint(state, labels) + self.sign * back
        return other if np.log(rng.random()) < ratio else labels


def sum_of_new(log_q, counts, k):
    """Log probability of a cluster; all empty slots are one new cluster."""
    return 0.0 if counts[k] == 0 else log_q[k]


class PlainSplitMerge(OnPartitions):
    """Splits by a coin and merges between two random rows; `forgets` leaves rho out of the ratio."""

    def __init__(self, *, rho=0.4, forgets=False, n_moves=3):
        self.rho, self.forgets, self.n_moves = rho, forgets, n_moves

    def next_labels(self, state, labels, rng):
        for _ in range(self.n_moves):
            labels = self._moved(state, labels, rng)
        return labels

    def _moved(self, state, labels, rng):
        i, j = rng.choice(labels.size, size=2, replace=False)
        log_rho = 0.0 if self.forgets else np.log(self.rho)
        if labels[i] == labels[j]:
            if rng.random() >= self.rho:
                return labels
            inside = labels == labels[i]
            goes = inside & (rng.random(labels.size) < 0.5)
            goes[i], goes[j] = False, True
            other = np.where(goes, labels.max() + 1, labels)
            back = (inside.sum() - 2) * np.log(2.0) - log_rho
        else:
            inside = (labels == labels[i]) | (labels == labels[j])
            other = np.where(inside, labels[i], labels)
            back = log_rho - (inside.sum() - 2) * np.log(2.0)
        other = np.unique(other, return_inverse=True)[1]
        if other.max() + 1 > (state.model.weights.max_components or labels.size):
            return labels
        ratio = log_joint(state, other) - log_joint(state, labels) + back
        return other if np.log(rng.random()) < ratio else labels


class StaleStatistics(CollapsedGibbs):
    """Right sweeps; at every third step two rows change places without the statistics being told."""

    def reversed(self):
        return type(self)(order=OPPOSITE[self.order])

    def move(self, state):
        found = super().move(state)
        if (state.n_steps // 1000) % 3 == 0:
            state.labels[[0, 1]] = state.labels[[1, 0]]
        return found


class AdaptsForEver(CollapsedGibbs):
    """Right sweeps, in each step so many that the log joint is above its mean in the past of the chain."""

    def reversed(self):
        return type(self)(order=OPPOSITE[self.order])

    def move(self, state):
        past = state.memory.setdefault("past", [])
        found = super().move(state)
        for _ in range(5):
            if not past or state.log_joint >= np.mean(past):
                break
            state.n_steps += 1
            found = super().move(state)
        past.append(state.log_joint)
        return found


class SizesForgotten(UpdateHyper):
    """Right for the family; the weights are updated as if all data were one cluster."""

    def move(self, state):
        weights = state.model.weights
        found = super().move(state)
        rng = np.random.default_rng([state.seed, state.n_steps])
        state.set_model(state.model.with_weights(weights.update_hyper([state.data.n_rows], rng)))
        return found

"""Slow samplers of hierarchical Dirichlet processes from their definitions: the oracles of the fast sweeps.

Rows of any family, or tokens as rows of one count each, in groups; one datum at a time, plain Python. Scores come from
a table of the evidence of all sets of data, so there are at most nine of them.
"""

import itertools
import math

import numpy as np

from expfam.families.support import dense_rows
from expfam.model.enumeration import canonical, set_partitions

FAULTS = ("one_table", "a_table_each", "beta_kept", "rest_kept", "dead_lost")


def evidence_of_sets(family, X):
    """Log evidence of each set of data, by its bits: (2^n,), 0 for the empty set."""
    phi = np.asarray(dense_rows(family.sufficient_statistics(X)), dtype=np.float64)
    inside = (np.arange(1 << len(phi))[:, None] >> np.arange(len(phi))) & 1
    return [0.0, *family.log_marginal_of_rows(inside[1:].sum(axis=1).astype(np.float64), inside[1:] @ phi)]


def table_counts(labels, groups):
    """Data of each group in each cluster: (G, K)."""
    counts = np.zeros((max(groups) + 1, max(labels) + 1), dtype=int)
    np.add.at(counts, (groups, labels), 1)
    return counts


def posterior(model, evidence, groups):
    """All partitions of the data with their probabilities, by `log_prior` of the model."""
    weight = np.exp(log_joints(model, evidence, groups) - evidence[-1])
    return set_partitions(len(groups)), weight / weight.sum()


def log_joints(model, evidence, groups):
    """Log joint of every partition, in the order of `set_partitions`."""
    found, priors = [], {}  # partitions with the same counts, in any order of the clusters, have one prior
    for p in set_partitions(len(groups)):
        sets = [sum(1 << i for i, k in enumerate(p) if k == block) for block in range(max(p) + 1)]
        counts = table_counts(p, groups)
        key = tuple(sorted(map(tuple, counts.T.tolist())))
        if key not in priors:
            priors[key] = model.log_prior(counts)
        found.append(priors[key] + sum(evidence[s] for s in sets))
    return np.array(found)


def canonical_known(labels, n_known):
    """Labels whose known clusters 0..n_known - 1 stay, and whose others are numbered by first appearance."""
    names = {}
    return tuple(k if k < n_known else names.setdefault(k, n_known + len(names)) for k in labels)


def all_labels(n, n_known, classes=None):
    """All labels of n data with known clusters; data of a known class have its number."""
    found = [()]
    for i in range(n):
        given = -1 if classes is None else classes[i]
        found = [
            (*labels, k)
            for labels in found
            for k in ([given] if given >= 0 else range(max((n_known, *(k + 1 for k in labels))) + 1))
        ]
    return found


def seated_prior(alpha, gamma, groups, n_known=0):
    """Probability of each partition as the sum over every seating of the franchise: a dict.

    The dishes 0..n_known - 1 are on the menu from the beginning, with the mass of a table each.
    """
    seatings = {((), ()): 1.0}  # tables of the data, each (group, number, dish): probability
    for group in groups:
        grown = {}
        for (seats, dishes), p in seatings.items():
            here = [t for t in range(len(dishes)) if any(s == t and g == group for s, g in zip(seats, groups))]
            n = sum(seats.count(t) for t in here)
            options = [(t, dishes, seats.count(t) / (n + alpha)) for t in here]
            for dish in range(max((n_known - 1, *dishes)) + 2):
                mass = dishes.count(dish) + 1 if dish < n_known else dishes.count(dish) or gamma
                share = mass / (len(dishes) + gamma + n_known)
                options.append((len(dishes), (*dishes, dish), alpha / (n + alpha) * share))
            for table, served, q in options:
                key = ((*seats, table), served)
                grown[key] = grown.get(key, 0.0) + p * q
        seatings = grown
    found = {}
    for (seats, dishes), p in seatings.items():
        key = canonical_known([dishes[t] for t in seats], n_known)
        found[key] = found.get(key, 0.0) + p
    return found


def drawn(rng, logs):
    """Index drawn with probabilities proportional to exp(logs)."""
    best = max(logs)
    weights = [math.exp(score - best) for score in logs]
    u = rng.random() * sum(weights)
    for place, w in enumerate(weights):
        u -= w
        if u < 0:
            return place
    return len(weights) - 1


class Franchise:
    """Seats at tables and dishes of tables, both explicit (Teh and others 2006, section 5.1)."""

    def __init__(self, model, evidence, groups, *, seed, learns=False):
        self.alpha, self.gamma, self.evidence, self.groups = model.alpha, model.gamma, evidence, list(groups)
        self.rng, self.learns = np.random.default_rng(seed), learns
        self.tables = [[group, 1 << i, i] for i, group in enumerate(self.groups)]  # group, data as bits, dish

    def labels(self):
        dishes = {i: dish for _, bits, dish in self.tables for i in range(len(self.groups)) if bits >> i & 1}
        return canonical([dishes[i] for i in range(len(self.groups))])

    def step(self):
        for i in range(len(self.groups)):
            self.reseat(i)
        if self.learns:
            self.learn()

    def reseat(self, i):
        """Draw table, and of a new table dish, of one datum given all others."""
        ev, bit, group = self.evidence, 1 << i, self.groups[i]
        for table in self.tables:
            table[1] &= ~bit
        self.tables = [table for table in self.tables if table[1]]
        sets, m = {}, {}
        for _, bits, dish in self.tables:
            sets[dish], m[dish] = sets.get(dish, 0) | bits, m.get(dish, 0) + 1
        fit = {dish: ev[s | bit] - ev[s] for dish, s in sets.items()}
        here = [table for table in self.tables if table[0] == group]
        fresh = max(sets, default=0) + 1
        logs = [math.log(table[1].bit_count()) + fit[table[2]] for table in here]
        served, M = [*m, fresh], len(self.tables)
        logs += [
            math.log(self.alpha * m.get(dish, self.gamma) / (M + self.gamma)) + fit.get(dish, ev[bit])
            for dish in served
        ]
        place = drawn(self.rng, logs)
        if place < len(here):
            here[place][1] |= bit
        else:
            self.tables.append([group, bit, served[place - len(here)]])

    def learn(self):
        """Draw both concentrations under Gamma(1, 1) priors."""
        M, K = len(self.tables), len({dish for _, _, dish in self.tables})
        sizes = np.bincount(self.groups)
        self.alpha = _drawn_concentration(self.rng, self.alpha, M, sizes[sizes > 0])
        self.gamma = _drawn_concentration(self.rng, self.gamma, K, np.array([M]))


class Direct:
    """Clusters of the data with explicit weights of the clusters (Teh and others 2006, section 5.3).

    A cluster that empties during a sweep keeps its weight until the weights are drawn. `fault` makes one of the
    mistakes of `FAULTS`, each of which another law would be the result of.
    """

    def __init__(self, model, evidence, groups, *, seed, learns=False, fault=None):
        self.alpha, self.gamma, self.evidence, self.groups = model.alpha, model.gamma, evidence, list(groups)
        self.rng, self.learns, self.fault = np.random.default_rng(seed), learns, fault
        self.z = [0] * len(self.groups)
        self.beta, self.rest = {0: 0.5}, 0.5

    def labels(self):
        return canonical(self.z)

    def step(self):
        for i in range(len(self.z)):
            self.redraw(i)
        if self.fault != "beta_kept":
            self.draw_weights()

    def redraw(self, i):
        """Draw the cluster of one datum given all others and the weights."""
        ev, bit, old = self.evidence, 1 << i, self.z[i]
        sets, n = dict.fromkeys(self.beta, 0), dict.fromkeys(self.beta, 0)
        for j, k in enumerate(self.z):
            if j != i:
                sets[k] |= 1 << j
                n[k] += self.groups[j] == self.groups[i]
        if self.fault == "dead_lost" and not sets[old]:
            del self.beta[old]
        names = list(self.beta)
        logs = [
            math.log(max(n[k] + self.alpha * self.beta[k], 1e-300)) + ev[sets[k] | bit] - ev[sets[k]] for k in names
        ]
        place = drawn(self.rng, [*logs, math.log(max(self.alpha * self.rest, 1e-300)) + ev[bit]])
        if place < len(names):
            self.z[i] = names[place]
            return
        self.z[i] = next(k for k in itertools.count() if k not in self.beta and (k not in self.z or k == old))
        share = self.rng.beta(1.0, self.gamma)
        self.beta[self.z[i]] = share * self.rest
        if self.fault != "rest_kept":
            self.rest *= 1.0 - share

    def draw_weights(self):
        """Draw the numbers of tables, the concentrations with the weights integrated out, and the weights."""
        counts = table_counts(canonical(self.z), self.groups)
        names = list(dict.fromkeys(self.z))  # in the order of the columns
        m = [sum(self.tables_of(n, self.alpha * self.beta[k]) for n in counts[:, j]) for j, k in enumerate(names)]
        if self.learns:
            sizes = counts.sum(axis=1)
            self.alpha = _drawn_concentration(self.rng, self.alpha, sum(m), sizes[sizes > 0])
            self.gamma = _drawn_concentration(self.rng, self.gamma, len(m), np.array([sum(m)]))
        *weights, self.rest = self.rng.dirichlet([*m, self.gamma])
        self.rest = max(self.rest, 1e-300)
        self.beta = {k: max(w, 1e-300) for k, w in zip(names, weights)}

    def tables_of(self, n, a):
        """Draw the number of tables of n data of a group in a cluster of mass a."""
        if self.fault in ("one_table", "a_table_each"):
            return min(n, 1) if self.fault == "one_table" else n
        return int((self.rng.random(n) < a / (a + np.arange(n))).sum())


class SplitMerge(Direct):
    """Splits and merges with explicit weights; each step tries one and draws the weights.

    Two data are drawn, whatever their clusters; the other data join one of them in the order of their numbers. `fault`
    may also be "share_density", which forgets the density of the two weights.
    """

    def step(self):
        u, v = self.rng.choice(len(self.z), 2, replace=False)
        if self.z[u] == self.z[v]:
            self.split(u, v, self.z[u])
        else:
            self.merge(u, v, self.z[u], self.z[v])
        if self.fault != "beta_kept":
            self.draw_weights()

    def split(self, u, v, k):
        inside = [i for i, c in enumerate(self.z) if c == k]
        share = self.rng.random()
        sides, log_q = self.divided(inside, u, v, self.beta[k], share, None)
        if math.log(self.rng.random()) < self.log_gain(inside, sides, self.beta[k], share) - log_q:
            new = next(c for c in itertools.count() if c not in self.beta)
            for i in inside:
                self.z[i] = new if sides[i] else k
            self.beta[k], self.beta[new] = self.beta[k] * share, self.beta[k] * (1.0 - share)

    def merge(self, u, v, a, b):
        inside = [i for i, c in enumerate(self.z) if c in (a, b)]
        given, both = {i: self.z[i] == b for i in inside}, self.beta[a] + self.beta[b]
        share = self.beta[a] / both
        log_q = self.divided(inside, u, v, both, share, given)[1]
        if math.log(self.rng.random()) < log_q - self.log_gain(inside, given, both, share):
            self.z = [a if c == b else c for c in self.z]
            self.beta[a] = both
            del self.beta[b]

    def divided(self, inside, u, v, beta, share, given):
        """Draw the side of each datum, or take the given ones; return them with their log probability."""
        sides, sets, log_q = {u: False, v: True}, [1 << u, 1 << v], 0.0
        for i in inside:
            if i in (u, v):
                continue
            n = [sum(self.groups[j] == self.groups[i] and sides[j] == s for j in sides) for s in (False, True)]
            mass = [n[0] + self.alpha * beta * share, n[1] + self.alpha * beta * (1.0 - share)]
            logs = [math.log(max(m, 1e-300)) + self.evidence[x | 1 << i] - self.evidence[x] for m, x in zip(mass, sets)]
            side = drawn(self.rng, logs) if given is None else int(given[i])
            log_q += logs[side] - np.logaddexp(*logs)
            sides[i] = bool(side)
            sets[side] |= 1 << i
        return sides, log_q

    def log_gain(self, inside, sides, beta, share):
        """Log density of two clusters over that of one."""
        total = math.log(self.gamma)
        if self.fault != "share_density":
            total -= math.log(share) + math.log1p(-share)
        for g in {self.groups[i] for i in inside}:
            n = [sum(self.groups[i] == g and sides[i] == s for i in inside) for s in (False, True)]
            for m, part in ((n[0], share), (n[1], 1.0 - share)):
                a = self.alpha * beta * part
                total += math.lgamma(a + m) - math.lgamma(a)
            total -= math.lgamma(self.alpha * beta + sum(n)) - math.lgamma(self.alpha * beta)
        sets = [sum(1 << i for i in inside if sides[i] == s) for s in (False, True)]
        return total + self.evidence[sets[0]] + self.evidence[sets[1]] - self.evidence[sets[0] | sets[1]]


def _drawn_concentration(rng, a, n_tables, sizes):
    """Draw a concentration under Gamma(1, 1), given tables and the sizes of what was divided among them."""
    rate = 1.0 - np.log(np.maximum(rng.beta(a, sizes), 1e-300)).sum()
    return rng.gamma(1.0 + n_tables) / rate

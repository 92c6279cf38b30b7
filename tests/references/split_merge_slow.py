"""Split-merge kernels written out: transition matrices over all partitions of tiny data, slow and by definition."""

from itertools import combinations, permutations, product

import numpy as np
from scipy.special import comb, gammaln

from expfam import Dataset
from expfam.structures.hashing.min_hash import first_dart, split_probability


class Reference:
    """Posterior of a tiny model by partitions as sets of blocks, with matrices of moves."""

    def __init__(self, model, X, partitions, pi):
        self.data = Dataset(X, model.family)
        self.model = model.with_family(self.data.family)
        self.partitions, self.pi = partitions, pi
        self.blocks = [frozenset(_blocks(p)) for p in partitions]
        self.place = {b: row for row, b in enumerate(self.blocks)}
        self.N = self.data.n_rows
        self.phi = self.data.phi(0, self.N)
        self.rows = self.data.X.toarray() if hasattr(self.data.X, "toarray") else np.asarray(self.data.X, dtype=float)

    def evidence(self, block):
        """Log evidence of some data as one cluster."""
        rows = sorted(block)
        return float(self.model.family.log_marginal(np.array([float(len(rows))]), self.phi[rows].sum(0)[None])[0])

    def splits(self, z):
        """(C, A, B, place) of each way to split a block of partition number z, each unordered pair once."""
        for C in self.blocks[z]:
            first, *rest = sorted(C)
            for size in range(len(rest)):
                for chosen in combinations(rest, size):
                    A = frozenset((first, *chosen))
                    other = self.place.get((self.blocks[z] - {C}) | {A, C - A})
                    if other is not None:
                        yield C, A, C - A, other

    def metropolis(self, forward, backward, *, ratio_forward=None, ratio_backward=None):
        """Matrix of moves z -> z' by a split with probability forward(z, C, A, B), back with backward(z', A, B).

        The functions for the ratio are the same ones, unless a formula that is not the law of the move is on trial.
        """
        P = np.zeros((len(self.pi), len(self.pi)))
        ratio_forward, ratio_backward = ratio_forward or forward, ratio_backward or backward
        for z in range(len(self.pi)):
            for C, A, B, split in self.splits(z):
                there, back = forward(z, C, A, B), backward(split, A, B)
                up = self.pi[split] * ratio_backward(split, A, B)
                down = self.pi[z] * ratio_forward(z, C, A, B)
                P[z, split] += there * (1.0 if up >= down else up / down)
                P[split, z] += back * (1.0 if down >= up else down / up)
        return _stay(P)

    # ---- kernels ----------------------------------------------------------------------------------------------------

    def anchored(self, auxiliary, *, rho=1.0, law=None):
        """Anchors (u, v) by a law; `auxiliary(u, A, v, B)` lists (probability, q) of all that is drawn on the way."""
        N, P = self.N, np.zeros((len(self.pi), len(self.pi)))
        law = np.full((N, N), 1.0 / (N * (N - 1))) if law is None else law
        for z, split, size, u, v, chance, q in self.draws(auxiliary):
            thin = rho(size) if callable(rho) else rho
            r = self.pi[split] / (self.pi[z] * q * thin)
            p = law[u, v] * chance
            P[z, split] += p * thin * q * min(1.0, r)
            P[split, z] += p * min(1.0, 1.0 / r)
        return _stay(P)

    def draws(self, auxiliary):
        """Each partition, a split of it, the size of the cluster, anchors on both sides, and what is drawn between."""
        for z in range(len(self.pi)):
            for C, A, B, split in self.splits(z):
                for one, two in ((A, B), (B, A)):
                    for u, v in product(one, two):
                        for chance, q in auxiliary(u, one, v, two):
                            yield z, split, len(C), u, v, chance, q

    def member(self, auxiliary):
        """A fair coin: two data of the cluster of a uniform datum, or two uniform data."""
        N, P = self.N, np.zeros((len(self.pi), len(self.pi)))
        for z, split, size, _, _, chance, q in self.draws(auxiliary):
            there, back = 0.5 * q / (N * (size - 1.0)), 0.5 / N**2
            r = self.pi[split] * back / (self.pi[z] * there)
            P[z, split] += chance * there * min(1.0, r)
            P[split, z] += chance * back * min(1.0, 1.0 / r)
        return _stay(P)

    def coin(self, u, A, v, B):
        return [(1.0, 0.5 ** (len(A) + len(B) - 2))]

    def urn(self, u, A, v, B):
        c, a, b = self.model.weights.offset, len(A), len(B)
        log_q = gammaln(a + c) + gammaln(b + c) - gammaln(a + b + 2 * c) - 2 * gammaln(1 + c) + gammaln(2 + 2 * c)
        return [(1.0, float(np.exp(log_q)))]

    def sequential(self, u, A, v, B):
        others = sorted((A | B) - {u, v})
        orders = list(permutations(others))
        return [(1.0 / len(orders), self.pass_probability(order, u, A, v)) for order in orders]

    def pass_probability(self, order, u, A, v):
        left, right, q = {u}, {v}, 1.0
        for i in order:
            x = [
                np.log(len(side) + self.model.weights.offset) + self.evidence(side | {i}) - self.evidence(side)
                for side in (left, right)
            ]
            p = 1.0 / (1.0 + np.exp(x[1] - x[0]))
            q *= p if i in A else 1.0 - p
            (left if i in A else right).add(i)
        return q

    def bucket(self, keys):
        """The published idea with the buckets of one table as they are."""

        def forward(z, C, A, B):
            def is_bucket(one, two):
                own = {keys[i] for i in one}
                return len(own) == 1 and not own & {keys[i] for i in two}

            return 0.5 * (len(A) * is_bucket(A, B) + len(B) * is_bucket(B, A)) / self.N

        return self.metropolis(forward, self.uniform_pair)

    def uniform_pair(self, z, A, B):
        M = len(self.blocks[z])
        return 0.5 * 2.0 / (M * (M - 1.0))

    def cut(self):
        """A uniform cut of one column, columns by their ranges."""

        def forward(z, C, A, B):
            a, b = self.rows[sorted(A)], self.rows[sorted(B)]
            gap = np.maximum(np.maximum(a.min(0) - b.max(0), b.min(0) - a.max(0)), 0.0).sum()
            width = np.ptp(self.rows[sorted(C)], axis=0).sum()
            return 0.5 * (gap / width if width > 0 else 0.0) / len(self.blocks[z])

        return self.metropolis(forward, self.uniform_pair)

    def softmax(self):
        """Random splits, merges by Bayes factors."""

        def forward(z, C, A, B):
            n = len(C)
            return 0.5 * 2.0 / ((n - 1.0) * comb(n, len(A))) / len(self.blocks[z])

        def choice(z, A, B):
            scores = {D: self.evidence(A | D) - self.evidence(D) for D in self.blocks[z] if D != A}
            top = max(scores.values())
            return np.exp(scores[B] - top) / sum(np.exp(s - top) for s in scores.values())

        def backward(z, A, B):
            return 0.5 * (choice(z, A, B) + choice(z, B, A)) / len(self.blocks[z])

        return self.metropolis(forward, backward)

    def centres(self, keys_of):
        """Merges of a cluster with one whose centre shares its bucket; splits by coins. `keys_of(block)` is a key."""
        return self.metropolis(*self._by_centres(keys_of))

    def _by_centres(self, keys_of):
        """Laws of a split by coins, and of a merge of two centres in one bucket."""

        def forward(z, C, A, B):
            return 0.5 / len(self.blocks[z]) * 2.0 ** (1 - len(C))

        def backward(z, A, B):
            if keys_of(A) != keys_of(B):
                return 0.0
            bucket = sum(keys_of(D) == keys_of(A) for D in self.blocks[z])
            return 0.5 * 2.0 / (len(self.blocks[z]) * (bucket - 1.0))

        return forward, backward

    # ---- as printed -------------------------------------------------------------------------------------------------

    def redrawn_bucket(self, *, formula):
        """MinSM with a new minwise hash for each move; accepted by the true law of its splits or by a printed one."""

        def side(probability, one, two):
            return len(one) * probability(self.rows[sorted(one)], self.rows[sorted(two)]) / self.N

        def true(z, C, A, B):
            return 0.5 * (side(split_probability, A, B) + side(split_probability, B, A))

        ratios = {
            "both sides": true,
            "one side": lambda z, C, A, B: 0.5 * side(split_probability, A, B),
            "first dart": lambda z, C, A, B: 0.5 * (side(first_dart, A, B) + side(first_dart, B, A)),
        }
        return self.metropolis(true, self.uniform_pair, ratio_forward=ratios[formula])

    def printed_centres(self, keys_of):
        """The merge on a table of centres as printed: bucket and cluster counted, the other order and 2 left out."""
        return self.metropolis(
            *self._by_centres(keys_of),
            ratio_forward=lambda z, C, A, B: 0.5 / len(self.blocks[z]) * 2.0 ** -len(C),
            ratio_backward=lambda z, A, B: 0.5 / len(self.blocks[z]) * (keys_of(A) == keys_of(B)),
        )


def stationary(P):
    """Stationary law of an irreducible matrix."""
    values, vectors = np.linalg.eig(P.T)
    v = np.real(vectors[:, np.argmin(np.abs(values - 1.0))])
    return v / v.sum()


def _blocks(p):
    return [frozenset(i for i, k in enumerate(p) if k == label) for label in set(p)]


def _stay(P):
    P[np.diag_indices_from(P)] = 1.0 - P.sum(axis=1)
    return P

"""The published split-merge formulas as exact transition matrices over all partitions of few data, and their errors.

Luo and Shrivastava, "Scaling-up split-merge MCMC with locality sensitive sampling (LSS)": equations (2) to (10) of the
proposals, with evidence times partition prior in place of the likelihood, the only reading with a law to compare to.
A matrix holds what the chain does: the true probability of each proposal times the acceptance as printed. No number is
drawn, so a distance is the formula's own error. With every correction switched on a kernel has distance 0, which checks
the matrices themselves. Run it for the table: ``python tests/references/split_merge_printed.py``.

Readings, each the kinder one where the text leaves a choice: the bucket that a merge would have needed is the side of
the first of the two clusters drawn, with its own size; tables are drawn again at every move, so that averages over hash
functions are what the chain sees; the anchors of equations (2) and (3) follow their printed law, normalised.
"""

import sys
from functools import cached_property
from itertools import combinations
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "support"))  # where pytest does not say it

from enumeration import canonical, exact_posterior, move_matrix, total_variation


def subsets(items):
    """All subsets as tuples, the empty one too."""
    return [c for size in range(len(items) + 1) for c in combinations(items, size)]


def collision(W):
    """Equation (1): probability that all rows of nonnegative W have one weighted MinHash."""
    total = W.max(axis=0).sum()
    return W.min(axis=0).sum() / total if total > 0 else 1.0


def first_dart(A, B):
    """Equation (4): the printed probability that all of A collide, and none of B with them."""
    return np.maximum(A.min(axis=0) - B.max(axis=0), 0.0).sum() / np.concatenate([A, B]).max(axis=0).sum()


def bucket_law(W, u):
    """Exact probability of each set that the bucket of row u may be, by inclusion and exclusion."""
    others = [i for i in range(len(W)) if i != u]
    together = {c: collision(W[[u, *c]]) for c in subsets(others)}
    return {
        tuple(sorted((u, *c))): sum(
            (-1) ** len(more) * together[tuple(sorted((*c, *more)))] for more in subsets(sorted(set(others) - set(c)))
        )
        for c in subsets(others)
    }


def anchor_law(X, sign, *, n_bits=10, n_tables=10):
    """Law (N, N) of v given u: the printed 1 - (1 - Pr(sign u, v)^K)^L, normalised over the others."""
    Y = X - X.mean(axis=0)
    Y = Y / np.maximum(np.linalg.norm(Y, axis=1, keepdims=True), 1e-12)
    agree = 1.0 - np.arccos(np.clip(sign * Y @ Y.T, -1.0, 1.0)) / np.pi
    found = 1.0 - (1.0 - agree**n_bits) ** n_tables + 1e-12
    np.fill_diagonal(found, 0.0)
    return found / found.sum(axis=1, keepdims=True)


class Printed:
    """Transition matrices of the published kernels for one model and few data.

    Parameters
    ----------
    model : MixtureModel
    X : (N, V) ndarray
        At most 6 rows.
    """

    def __init__(self, model, X):
        self.X = np.asarray(X, dtype=float)
        self.partitions, self.pi = exact_posterior(model, X)
        self.mass = dict(zip(self.partitions, self.pi))
        self.N = len(X)
        self.doubled = np.concatenate([np.maximum(self.X, 0), np.maximum(-self.X, 0)], axis=1)

    # ---- moves between partitions --------------------------------------------------------------------------------

    def blocks(self, p):
        """Clusters of a partition as tuples of data."""
        return [tuple(np.flatnonzero(np.array(p) == k)) for k in range(max(p) + 1)]

    def split(self, p, A):
        """The partition with the data A in a cluster of their own."""
        labels = np.array(p)
        labels[list(A)] = labels.max() + 1
        return canonical(labels)

    def merged(self, p, A, B):
        """The partition with the clusters A and B as one."""
        labels = np.array(p)
        labels[list(B)] = labels[A[0]]
        return canonical(labels)

    def accept(self, p, q, forward, back):
        """Published acceptance of a move from p to q with printed proposal probabilities."""
        top, bottom = self.mass.get(q, 0.0) * back, self.mass[p] * forward
        return 1.0 if bottom == 0 and top > 0 else 0.0 if top == 0 else min(1.0, top / bottom)

    def matrix(self, moves):
        """Transition matrix of `moves(p)`: (partition, true probability of proposing, of accepting)."""

        def kept(p):
            stays = 1.0
            for q, proposed, accepted in moves(p):
                if q in self.mass and proposed * accepted > 0:
                    stays -= proposed * accepted
                    yield q, proposed * accepted
            yield p, stays

        return move_matrix(self.partitions, kept)

    # ---- MinSM, smart split and dumb merge: equations (4) to (6), (8) ---------------------------------------------

    @cached_property
    def buckets(self):
        """Law of the bucket of each datum."""
        return [bucket_law(self.doubled, u) for u in range(self.N)]

    def split_probability(self, A, C):
        """True probability that the data of C in the bucket of a member of A are exactly A."""
        inside = set(C)
        return sum(p for bucket, p in self.buckets[A[0]].items() if inside.intersection(bucket) == set(A))

    def minhash_split(self, *, true_collision=False, own_bucket=False, both_sides=False):
        """Smart split and dumb merge.

        Parameters
        ----------
        true_collision : bool
            The exact probability in place of equation (4).
        own_bucket : bool
            The bucket's part of the cluster in place of the whole bucket.
        both_sides : bool
            Either side may have been the bucket.
        """

        def one_side(A, B, size):
            D = self.doubled
            chance = self.split_probability(A, (*A, *B)) if true_collision else first_dart(D[list(A)], D[list(B)])
            return size / self.N * chance

        def printed(A, B, size):
            return one_side(A, B, size) + (one_side(B, A, len(B)) if both_sides else 0.0)

        def moves(p):
            blocks, M = self.blocks(p), max(p) + 1
            for u in range(self.N):
                C = blocks[p[u]]
                for bucket, chance in self.buckets[u].items():
                    A = tuple(i for i in C if i in bucket)
                    B = tuple(i for i in C if i not in bucket)
                    if B and chance > 1e-15:
                        q = self.split(p, A)
                        forward = printed(A, B, len(A) if own_bucket else len(bucket))
                        yield q, 0.5 * chance / self.N, self.accept(p, q, forward, 2 / ((M + 1) * M))
            for A in blocks:
                for B in blocks:
                    if A != B:
                        q = self.merged(p, A, B)
                        yield q, 0.5 / (M * (M - 1)), self.accept(p, q, 2 / (M * (M - 1)), printed(A, B, len(A)))

        return self.matrix(moves)

    # ---- MinSM, smart merge and dumb split: equations (7), (9), (10) ----------------------------------------------

    def minhash_merge(self, *, realised=False):
        """Merge of clusters whose centres share a bucket, and dumb split.

        Parameters
        ----------
        realised : bool
            The true probability of the pair, both orders, and of the unordered split.
        """

        def law(p):
            centres = np.stack([self.doubled[list(block)].mean(axis=0) for block in self.blocks(p)])
            return centres, [bucket_law(centres, u) for u in range(len(centres))]

        def pair(laws, a, b):
            """True probability that a is drawn and then b from its bucket."""
            return sum(p / (len(bucket) - 1) for bucket, p in laws[a].items() if b in bucket) / len(laws)

        def printed(centres, laws, a, b, size):
            if realised:
                return pair(laws, a, b) + pair(laws, b, a)
            return collision(centres[[a, b]]) / (size * len(centres))

        def moves(p):
            blocks, M = self.blocks(p), max(p) + 1
            centres, laws = law(p)
            for a in range(M):
                for bucket, chance in laws[a].items():
                    for b in set(bucket) - {a}:
                        q = self.merged(p, blocks[a], blocks[b])
                        n = len(blocks[a]) + len(blocks[b])
                        back = (2.0 if realised else 1.0) * 0.5**n / (M - 1)
                        forward = printed(centres, laws, a, b, len(bucket))
                        yield q, 0.5 * chance / (M * (len(bucket) - 1)), self.accept(p, q, forward, back)
            for C in blocks:
                for A in subsets(C):
                    B = tuple(sorted(set(C) - set(A)))
                    if A and B:
                        q = self.split(p, A)
                        there, after = law(q)
                        a, b = (self.blocks(q).index(side) for side in (A, B))
                        back = printed(there, after, a, b, 2)
                        forward = (2.0 if realised else 1.0) * 0.5 ** len(C) / M
                        yield q, 0.5 * 0.5 ** len(C) / M, self.accept(p, q, forward, back)

        return self.matrix(moves)

    # ---- LSHSM: equations (2) and (3) ------------------------------------------------------------------------------

    def _across(self, law, A, B):
        return sum(law[u, v] for u in A for v in B) / self.N

    def _apart(self, law, p):
        """Probability that the anchors fall in different clusters."""
        same = np.array(p)[:, None] == np.array(p)
        return float(law[~same].sum()) / self.N

    def naive_split(self, *, both_orders=False, reverse=False):
        """Equation (2): far anchors in one cluster split it evenly at random, else two clusters merge.

        Parameters
        ----------
        both_orders : bool
            Either anchor may have been drawn first.
        reverse : bool
            The dumb merge counts with the probability that there is one.
        """
        law = anchor_law(self.X, -1.0)

        def smart(A, B):
            one = self._across(law, A, B) + (self._across(law, B, A) if both_orders else 0.0)
            return one * 0.5 ** (len(A) + len(B) - 2)

        def dumb(p):
            M = max(p) + 1
            return 2 / (M * (M - 1)) * (self._apart(law, p) if reverse else 1.0)

        def moves(p):
            blocks = self.blocks(p)
            for C in blocks:
                for A in subsets(C):
                    B = tuple(sorted(set(C) - set(A)))
                    if A and B:
                        q = self.split(p, A)
                        proposed = self._across(law, A, B) * 0.5 ** (len(C) - 2)
                        yield q, proposed, self.accept(p, q, smart(A, B), dumb(q))
            M, apart = len(blocks), self._apart(law, p)
            for A in blocks:
                for B in blocks:
                    if A != B:
                        q = self.merged(p, A, B)
                        yield q, apart / (M * (M - 1)), self.accept(p, q, dumb(p), smart(A, B))

        return self.matrix(moves)

    def naive_merge(self, *, both_orders=False, reverse=False):
        """Equation (3): near anchors in two clusters merge them, else a cluster is split evenly at random.

        Parameters
        ----------
        both_orders : bool
            Either anchor may have been drawn first, and a split has two ordered forms.
        reverse : bool
            The dumb split counts with the probability that there is one.
        """
        law = anchor_law(self.X, 1.0)
        orders = 2.0 if both_orders else 1.0

        def smart(A, B):
            return self._across(law, A, B) + (self._across(law, B, A) if both_orders else 0.0)

        def dumb(p, n):
            together = 1.0 - self._apart(law, p) if reverse else 1.0
            return together * orders * 0.5**n / (max(p) + 1)

        def moves(p):
            blocks = self.blocks(p)
            for A in blocks:
                for B in blocks:
                    if A != B:
                        q = self.merged(p, A, B)
                        accepted = self.accept(p, q, smart(A, B), dumb(q, len(A) + len(B)))
                        yield q, self._across(law, A, B), accepted
            together = 1.0 - self._apart(law, p)
            for C in blocks:
                for A in subsets(C):
                    B = tuple(sorted(set(C) - set(A)))
                    if A and B:
                        q = self.split(p, A)
                        proposed = together * 0.5 ** len(C) / len(blocks)
                        yield q, proposed, self.accept(p, q, dumb(p, len(C)), smart(A, B))

        return self.matrix(moves)

    # ---- laws ------------------------------------------------------------------------------------------------------

    @cached_property
    def gibbs(self):
        """Exact Gibbs update of a datum drawn at random."""

        def conditional(p):
            for i in range(self.N):
                options = {}
                for k in range(max(p) + 2):
                    q = canonical([*p[:i], k, *p[i + 1 :]])
                    options[q] = self.mass.get(q, 0.0)
                total = sum(options.values())
                yield from ((q, mass / total / self.N) for q, mass in options.items() if mass > 0)

        return move_matrix(self.partitions, conditional)

    def distance(self, P):
        """Total variation of the law that a chain of P reaches, begun at the posterior, from the posterior."""
        for _ in range(60):  # P to the power 2^60: reducible chains have a limit too
            P = P @ P
            P /= P.sum(axis=1, keepdims=True)
        return total_variation(self.pi @ P, self.pi)

    def distances(self, P):
        """Of the kernel alone, and in even turns with exact Gibbs updates."""
        return self.distance(P), self.distance(0.5 * P + 0.5 * self.gibbs)


KERNELS = {
    "minhash_split": [
        ("(4)-(6) MinSM split, as printed", {}),
        ("the bucket's part of the cluster", {"own_bucket": True}),
        ("and both sides", {"own_bucket": True, "both_sides": True}),
        ("true collision, one side", {"own_bucket": True, "true_collision": True}),
        ("true collision, both sides", {"own_bucket": True, "true_collision": True, "both_sides": True}),
    ],
    "minhash_merge": [
        ("(7), (10) MinSM merge, as printed", {}),
        ("true law of the pair", {"realised": True}),
    ],
    "naive_split": [
        ("(2) LSHSM split, true anchor law", {}),
        ("both orders", {"both_orders": True}),
        ("and the chance of a merge", {"both_orders": True, "reverse": True}),
    ],
    "naive_merge": [
        ("(3) LSHSM merge, true anchor law", {}),
        ("both orders", {"both_orders": True}),
        ("and the chance of a split", {"both_orders": True, "reverse": True}),
    ],
}  # corrections of each kernel, the last of them all that are needed


def models():
    """Three families with data of two groups."""
    from expfam import DiagonalGaussian, DirichletProcess, MixtureModel, Multinomial, Poisson

    real = np.array([[0.3, -1.0], [0.5, -0.7], [2.0, 1.5], [1.7, 2.2], [-0.4, 0.1]])
    counts = np.array([[3, 0, 1, 0], [2, 1, 0, 0], [0, 0, 4, 1], [1, 0, 3, 1], [1, 0, 2, 5]])
    return {
        "gaussian": (
            MixtureModel(DiagonalGaussian(mean=0.2, mean_strength=0.3, shape=1.5, rate=0.7), DirichletProcess()),
            real,
        ),
        "poisson": (MixtureModel(Poisson(shape=0.8, rate=0.5), DirichletProcess()), counts),
        "multinomial": (MixtureModel(Multinomial(concentration=0.4), DirichletProcess()), counts),
    }


def main():
    """Print the distances of every kernel for three families."""
    printed = {name: Printed(model, X) for name, (model, X) in models().items()}
    print("total variation from the posterior: alone, and in even turns with exact Gibbs updates")
    print(f"{'':38}" + "".join(f"{name:>16}" for name in printed))
    for method, steps in KERNELS.items():
        for place, (title, corrections) in enumerate(steps):
            pairs = [own.distances(getattr(own, method)(**corrections)) for own in printed.values()]
            row = "".join(f"{alone:9.3f}{mixed:7.3f}" for alone, mixed in pairs)
            print(f"{'  ' * (place > 0) + title:38}{row}")


if __name__ == "__main__":
    main()

"""Allocators: laws by which the data of a cluster are divided between two anchors.

The compiled kernels have routines of their own for the allocators of this package; the objects bound here draw and
score by the same laws in plain NumPy, slowly, for a family's statistics alone. A third party's allocator needs no more
than such an object: it gives the sides of the rows it is shown, and the log probability of having done so.
"""

import numpy as np
from scipy import sparse
from scipy.special import gammaln

from expfam.errors import CapabilityError
from expfam.params import Settings
from expfam.samplers.geometry.hash_tables import coordinates
from expfam.structures.hashing.sign_hash import SignHash

_CODE_BITS = 128


class Allocator(Settings):
    """Base of the allocators: frozen settings; `bind` makes the object that works in a run.

    Its `sides(Phi, rng, forced=None)` divides m data, given by their statistics (m, F), dense or CSR. Rows 0 and 1 are
    the anchors and stay on the sides 0 and 1; the other rows come in ascending order of the data. It returns the sides
    (m,) int8 and log q <= 0, nats, the probability of this very choice. With `forced` it scores those sides by the same
    law; whatever else it draws on the way must not depend on them.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.samplers import Allocator, SplitMerge
    >>> class Biased(Allocator):
    ...     def assign(self, bound, Phi, rng, forced):
    ...         sides = (rng.random(len(Phi)) < 0.1).astype(int) if forced is None else forced
    ...         return sides, float(np.where(sides[2:] == 1, np.log(0.1), np.log(0.9)).sum())
    >>> kernel = SplitMerge(allocator=Biased())
    """

    api_version = 1
    kind = "allocator"

    def check(self, model, data):
        """Raise where settings, family or data do not allow the allocator."""

    def bind(self, model, data, *, seed):
        """Working object for one model and data set."""
        return _Bound(self, model)

    def assign(self, bound, Phi, rng, forced):
        """Sides and log q."""
        raise NotImplementedError(f"{type(self).__name__} does not implement assign()")


class CoinAllocator(Allocator):
    """A fair coin for each datum: the simple random split of Jain and Neal 2004.

    Examples
    --------
    >>> from expfam.samplers.split_merge.allocators import CoinAllocator
    >>> CoinAllocator()
    CoinAllocator()
    """

    def assign(self, bound, Phi, rng, forced):
        """One coin a row."""
        sides = rng.integers(2, size=Phi.shape[0]) if forced is None else forced
        return sides, -(Phi.shape[0] - 2) * np.log(2.0)


class UrnAllocator(Allocator):
    """Each datum joins a side with probability in proportion to its mass n + offset: all sizes are about as probable.

    Under a Dirichlet process the prior cancels against it, whatever the sizes: a split that costs the time of its
    smaller side, and a merge that costs nothing but evidences.

    Examples
    --------
    >>> from expfam.samplers.split_merge.allocators import UrnAllocator
    >>> UrnAllocator()
    UrnAllocator()
    """

    def assign(self, bound, Phi, rng, forced):
        """One draw from two urns a row; the order does not matter to log q."""
        sides, n = np.zeros(Phi.shape[0], dtype=np.int8), np.array([1.0, 1.0])
        sides[1], log_q = 1, 0.0
        for row in range(2, Phi.shape[0]):
            p = (n + bound.offset) / (n + bound.offset).sum()
            sides[row] = rng.random() < p[1] if forced is None else forced[row]
            log_q += np.log(p[sides[row]])
            n[sides[row]] += 1.0
        return sides, log_q


class SequentialAllocator(Allocator):
    """One pass in random order, each datum by its predictives under the two sides so far.

    Examples
    --------
    >>> from expfam.samplers.split_merge.allocators import SequentialAllocator
    >>> SequentialAllocator()
    SequentialAllocator()

    Notes
    -----
    Dahl 2005, "Sequentially-allocated merge-split sampler for conjugate and nonconjugate Dirichlet process mixture
    models". Departs from it in the masses, which are n + offset for other weights than a Dirichlet process.
    """

    def assign(self, bound, Phi, rng, forced):
        """One pass over the rows."""
        pair = _Pair(bound, Phi)
        log_q = sum(pair.place(row, rng, forced) for row in 2 + rng.permutation(Phi.shape[0] - 2))
        return pair.sides, float(log_q)


class RestrictedGibbsAllocator(Allocator):
    """The last of several Gibbs scans over the two sides, after a launch that is no part of log q.

    Parameters
    ----------
    n_scans : int
        Scans between the launch and the scored one.
    launch : {"coin", "sequential"}

    Examples
    --------
    >>> from expfam.samplers.split_merge.allocators import RestrictedGibbsAllocator
    >>> RestrictedGibbsAllocator(n_scans=5)
    RestrictedGibbsAllocator(n_scans=5, launch='coin')

    Notes
    -----
    Jain and Neal 2004, with masses n + offset.
    """

    def __init__(self, *, n_scans=3, launch="coin"):
        self.n_scans, self.launch = n_scans, launch

    def check(self, model, data):
        """Refuse numbers of scans and launches that there are not."""
        _at_least("n_scans", self.n_scans, 0)
        if self.launch not in ("coin", "sequential"):
            raise ValueError(f"launch must be 'coin' or 'sequential'; got {self.launch!r}")

    def assign(self, bound, Phi, rng, forced):
        """Launch, scans, scored scan, all in one random order."""
        pair, order = _Pair(bound, Phi), 2 + rng.permutation(Phi.shape[0] - 2)
        for row in order:
            if self.launch == "coin":
                pair.put(row, rng.integers(2))
            else:
                pair.place(row, rng, None)
        for row in np.tile(order, self.n_scans):
            pair.take(row)
            pair.place(row, rng, None)
        log_q = 0.0
        for row in order:
            pair.take(row)
            log_q += pair.place(row, rng, forced)
        return pair.sides, float(log_q)


class CodeAllocator(Allocator):
    """One pass in random order by sizes of the sides and distances of sign codes to the anchors; no likelihoods.

    Parameters
    ----------
    beta : float
        Log-odds for each bit by which a datum is nearer to one anchor.

    Examples
    --------
    >>> from expfam.samplers.split_merge.allocators import CodeAllocator
    >>> CodeAllocator()
    CodeAllocator(beta=0.35)
    """

    def __init__(self, *, beta=0.35):
        self.beta = beta

    def check(self, model, data):
        """Refuse a slope that is not positive."""
        if not 0 < self.beta < np.inf:
            raise ValueError(f"beta must be positive; got {self.beta!r}")

    def memory_per_row(self, data):
        """Bytes a datum of the codes, and of the coordinates that they are made from."""
        return _CODE_BITS // 8 + 8 * min(data.n_features, 256)

    def bind(self, model, data, *, seed):
        """The codes of all data, made once."""
        points = coordinates(data, seed)
        return _Codes(SignHash(_CODE_BITS, entries="gaussian8", seed=seed).codes(points))


class DelayedAllocator(Allocator):
    """The sequential pass, with tests after its first items: hopeless moves end there.

    Parameters
    ----------
    first : int
        Items before the first test.
    factor : int
        Each further test comes after so many times as many.

    Examples
    --------
    >>> from expfam.samplers.split_merge.allocators import DelayedAllocator
    >>> DelayedAllocator()
    DelayedAllocator(first=24, factor=6)

    Notes
    -----
    Christen and Fox 2005, "Markov chain Monte Carlo using an approximation", here with the same ratio of the
    sub-problem of the first items, whose reverse is its inverse.
    """

    def __init__(self, *, first=24, factor=6):
        self.first, self.factor = first, factor

    def check(self, model, data):
        """Refuse stages that do not grow."""
        _at_least("first", self.first, 1)
        _at_least("factor", self.factor, 2)

    def assign(self, bound, Phi, rng, forced):
        """Of the pass alone: the tests belong to the kernel."""
        return SequentialAllocator().assign(bound, Phi, rng, forced)


class FrozenAllocator(Allocator):
    """Independent draws given parameters that rounds of hard assignment from the anchors have made.

    Two products of matrices a round: the allocator for families that are written in NumPy.

    Parameters
    ----------
    n_rounds : int
        Rounds of hard assignment, after that to the nearest anchor.

    Examples
    --------
    >>> from expfam.samplers.split_merge.allocators import FrozenAllocator
    >>> FrozenAllocator(n_rounds=1)
    FrozenAllocator(n_rounds=1)
    """

    def __init__(self, *, n_rounds=2):
        self.n_rounds = n_rounds

    def check(self, model, data):
        """Refuse a negative number of rounds."""
        _at_least("n_rounds", self.n_rounds, 0)

    def assign(self, bound, Phi, rng, forced):
        """Rounds of hard sides, a function of the rows alone; then one draw a row."""
        hard = np.zeros(Phi.shape[0], dtype=np.int8)
        hard[1] = 1
        x = _log_odds(bound, Phi, np.arange(2), hard)
        for _ in range(self.n_rounds):
            hard = (x < 0).astype(np.int8)
            hard[:2] = 0, 1
            x = _log_odds(bound, Phi, np.arange(len(hard)), hard)
        sides = (rng.random(Phi.shape[0]) * (1.0 + np.exp(-x)) >= 1.0).astype(np.int8) if forced is None else forced
        sides[:2] = 0, 1
        return sides, -float(np.logaddexp(0.0, np.where(sides[2:] == 0, -x[2:], x[2:])).sum())


def _log_odds(bound, Phi, rows, hard):
    """Log-odds of side 0 for all rows, by the mean parameters of the sides of some rows."""
    sides = sparse.csr_array((np.ones(len(rows)), (hard[rows], rows)), shape=(2, Phi.shape[0]))
    n, S = np.asarray(sides.sum(axis=1)).ravel(), sides @ Phi
    Theta, G = bound.family.expected_natural(n, S.toarray() if sparse.issparse(S) else S)
    mass = np.log((n[0] + bound.offset) / (n[1] + bound.offset))
    # far in the tails everything is settled, and exp must not overflow
    return np.clip(Phi @ (Theta[0] - Theta[1]) - (G[0] - G[1]) + mass, -600.0, 600.0)


class _Codes:
    """Sign codes of all data; the rows of a call do not say which data they are, so only compiled kernels use them."""

    def __init__(self, codes):
        self.codes = codes

    def sides(self, Phi, rng, forced=None):
        raise CapabilityError("CodeAllocator works by the numbers of the data, in compiled kernels only")


class _Bound:
    """An allocator with the family and the masses of one model."""

    def __init__(self, settings, model):
        self.settings, self.family, self.offset = settings, model.family, model.weights.offset

    def sides(self, Phi, rng, forced=None):
        """Sides and log q, see `Allocator`."""
        given = None if forced is None else np.array(forced, dtype=np.int8)
        sides, log_q = self.settings.assign(self, Phi, rng, given)
        sides = np.array(sides, dtype=np.int8)
        sides[:2] = 0, 1
        return sides, log_q

    def __repr__(self):
        return f"bound {self.settings!r}"


class _Pair:
    """Two growing sides with their statistics."""

    def __init__(self, bound, Phi):
        self.bound, self.Phi = bound, Phi.toarray() if sparse.issparse(Phi) else Phi
        self.sides = np.zeros(len(self.Phi), dtype=np.int8)
        self.sides[1] = 1
        self.n, self.S = np.ones(2), np.array(self.Phi[:2], dtype=np.float64)

    def put(self, row, side):
        self.sides[row] = side
        self.n[side] += 1.0
        self.S[side] += self.Phi[row]

    def take(self, row):
        self.n[self.sides[row]] -= 1.0
        self.S[self.sides[row]] -= self.Phi[row]

    def place(self, row, rng, forced):
        """Side of a row, drawn or given, and its log probability."""
        A = self.bound.family.log_marginal
        x = A(self.n + 1.0, self.S + self.Phi[row]) - A(self.n, self.S) + np.log(self.n + self.bound.offset)
        x -= np.logaddexp(x[0], x[1])
        side = int(rng.random() >= np.exp(x[0])) if forced is None else int(forced[row])
        self.put(row, side)
        return x[side]


def urn_log_q(n_a, n_b, offset):
    """Log probability of one assignment of sizes n_a and n_b by the urns, nats."""
    c = offset
    ends = gammaln(n_a + c) + gammaln(n_b + c) - gammaln(n_a + n_b + 2 * c)
    return ends - 2 * gammaln(1.0 + c) + gammaln(2.0 + 2 * c)


def _at_least(name, value, least):
    if not isinstance(value, (int, np.integer)) or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}; got {value!r}")

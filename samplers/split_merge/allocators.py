"""Allocators: laws by which the data of a cluster are divided between two anchors.

The compiled kernels have routines of their own for the allocators of this package. The objects bound here draw and
score by the same laws in plain NumPy: slowly, and from a family's statistics alone. An allocator of a third party is an
object of the same kind: it returns the sides of the rows that it is shown, and the log probability of this choice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import gammaln

from expfam.errors import CapabilityError
from expfam.params import POSITIVE, Integer, PartSettings
from expfam.samplers.geometry.hash_tables import coordinates
from expfam.structures.hashing.sign_hash import SignHash

if TYPE_CHECKING:
    from expfam.model.data import Dataset
    from expfam.model.mixture import MixtureModel
    from expfam.protocols import BoundAllocator

_CODE_BITS = 128


class Allocator(PartSettings):
    """Base of the allocators: frozen settings; `bind` makes the object that works in a run.

    That object has a method `sides(Phi, rng, forced=None)`, which divides m data, given by their statistics (m, F),
    dense or CSR. Rows 0 and 1 are the anchors and stay on the sides 0 and 1; the other rows come in ascending order of
    the data. The method returns the sides (m,) int8 and log q <= 0, the log probability of exactly this choice, nats.
    With `forced` it scores the given sides by the same law; nothing else that it draws may depend on them.

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

    def bind(self, model: MixtureModel, data: Dataset, *, seed: int) -> BoundAllocator:
        """Return the working object for one model and data set.

        Parameters
        ----------
        model, data : bound MixtureModel and Dataset
        seed : int
            Seed of the chain, 64 bits.

        Returns
        -------
        BoundAllocator
            Object with the method `sides`; by default it calls `assign`.
        """
        return _Bound(self, model)

    def assign(
        self, bound: _Bound, Phi: Any, rng: np.random.Generator, forced: npt.NDArray[np.int8] | None
    ) -> tuple[npt.NDArray[np.integer[Any]], float]:
        """Draw or score the sides (m,); return them and their log probability, nats.

        Parameters
        ----------
        bound : BoundAllocator
            Result of `bind`. Its attributes `family` and `offset` are those of the model: a side of n rows has mass
            n + offset.
        Phi : (m, F) float64 ndarray or CSR
            Sufficient statistics of the rows. Rows 0 and 1 are the anchors.
        rng : numpy Generator
            The only source of random numbers.
        forced : (m,) int8 ndarray or None
            Sides to score; None to draw the sides.

        Returns
        -------
        sides : (m,) int ndarray
            0 or 1 for each row: the drawn sides, or `forced`.
        log_q : float
            Log probability of these sides, nats.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement assign()")


class CoinAllocator(Allocator):
    """A fair coin for each datum: the simple random split of Jain and Neal 2004.

    Examples
    --------
    >>> from expfam.samplers.split_merge.allocators import CoinAllocator
    >>> CoinAllocator()
    CoinAllocator()
    """

    def assign(
        self, bound: _Bound, Phi: Any, rng: np.random.Generator, forced: npt.NDArray[np.int8] | None
    ) -> tuple[npt.NDArray[np.integer[Any]], float]:
        """Toss one coin for each row; return the sides (m,) and log q."""
        sides = rng.integers(2, size=Phi.shape[0]) if forced is None else forced
        return sides, -(Phi.shape[0] - 2) * np.log(2.0)


class UrnAllocator(Allocator):
    """Each datum joins a side with probability in proportion to the side's mass n + offset.

    All sizes of the sides are about equally probable. Under a Dirichlet process the prior cancels against this law,
    whatever the sizes: a split costs the time of its smaller side, and a merge costs only the evidences.

    Examples
    --------
    >>> from expfam.samplers.split_merge.allocators import UrnAllocator
    >>> UrnAllocator()
    UrnAllocator()
    """

    def assign(
        self, bound: _Bound, Phi: Any, rng: np.random.Generator, forced: npt.NDArray[np.int8] | None
    ) -> tuple[npt.NDArray[np.integer[Any]], float]:
        """Draw each row from two urns; return the sides (m,) and log q.

        The order of the rows does not change log q.
        """
        sides, n = np.zeros(Phi.shape[0], dtype=np.int8), np.array([1.0, 1.0])
        sides[1], log_q = 1, 0.0
        for row in range(2, Phi.shape[0]):
            p = (n + bound.offset) / (n + bound.offset).sum()
            sides[row] = rng.random() < p[1] if forced is None else forced[row]
            log_q += np.log(p[sides[row]])
            n[sides[row]] += 1.0
        return sides, log_q


class SequentialAllocator(Allocator):
    """Draw each datum once, in random order, by its predictives under the sides so far.

    Examples
    --------
    >>> from expfam.samplers.split_merge.allocators import SequentialAllocator
    >>> SequentialAllocator()
    SequentialAllocator()

    Notes
    -----
    Dahl 2005, "Sequentially-allocated merge-split sampler for conjugate and nonconjugate Dirichlet process mixture
    models". The masses are n + offset, which differs from the paper for weights other than a Dirichlet process.
    """

    def assign(
        self, bound: _Bound, Phi: Any, rng: np.random.Generator, forced: npt.NDArray[np.int8] | None
    ) -> tuple[npt.NDArray[np.integer[Any]], float]:
        """Allocate the rows in one pass in random order; return the sides (m,) and log q."""
        pair = _Pair(bound, Phi)
        log_q = sum(pair.place(row, rng, forced) for row in 2 + rng.permutation(Phi.shape[0] - 2))
        return pair.sides, float(log_q)


class RestrictedGibbsAllocator(Allocator):
    """Gibbs scans divide the data between two sides, from a first division, the launch.

    Only the last scan is part of log q.

    Parameters
    ----------
    n_scans : int
        Number of scans between the launch and the scored scan.
    launch : {"coin", "sequential"}
        Law of the first sides: a fair coin for each datum, or a sequential pass.

    Examples
    --------
    >>> from expfam.samplers.split_merge.allocators import RestrictedGibbsAllocator
    >>> RestrictedGibbsAllocator(n_scans=5)
    RestrictedGibbsAllocator(n_scans=5, launch='coin')

    Notes
    -----
    Jain and Neal 2004; a side of n data has the mass n + offset of the weights.
    """

    _constraints: ClassVar = {"n_scans": Integer(0), "launch": ("coin", "sequential")}

    def __init__(self, *, n_scans: int = 3, launch: Literal["coin", "sequential"] = "coin") -> None:
        self.n_scans, self.launch = n_scans, launch

    def assign(
        self, bound: _Bound, Phi: Any, rng: np.random.Generator, forced: npt.NDArray[np.int8] | None
    ) -> tuple[npt.NDArray[np.integer[Any]], float]:
        """Draw a launch, scan, and score the last scan; return the sides (m,) and log q.

        The launch and all scans visit the rows in the same random order.
        """
        pair, order = _Pair(bound, Phi), 2 + rng.permutation(Phi.shape[0] - 2)
        for row in order:
            if self.launch == "coin":
                pair.put(row, rng.integers(2))
            else:
                pair.place(row, rng, None)
        for row in np.tile(order, self.n_scans):
            pair.remove(row)
            pair.place(row, rng, None)
        log_q = 0.0
        for row in order:
            pair.remove(row)
            log_q += pair.place(row, rng, forced)
        return pair.sides, float(log_q)


class CodeAllocator(Allocator):
    """Draw each datum once, in random order, by distances of sign codes and sizes of the sides.

    No likelihood is evaluated.

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

    _constraints: ClassVar = {"beta": POSITIVE}

    def __init__(self, *, beta: float = 0.35) -> None:
        self.beta = beta

    def memory_per_row(self, data: Dataset) -> int:
        """Return the bytes per row of the codes and of the coordinates that they are made from."""
        return _CODE_BITS // 8 + 8 * min(data.n_features, 256)

    def bind(self, model: MixtureModel, data: Dataset, *, seed: int) -> BoundAllocator:
        """Compute the sign codes of all data; return the object that holds them."""
        points = coordinates(data, seed)
        return _Codes(SignHash(_CODE_BITS, entries="gaussian8", seed=seed).codes(points))


class DelayedAllocator(Allocator):
    """The sequential pass with early tests, which end moves that would probably be refused.

    Parameters
    ----------
    first : int
        Items before the first test.
    factor : int
        Each further test comes after `factor` times as many items as the test before.

    Examples
    --------
    >>> from expfam.samplers.split_merge.allocators import DelayedAllocator
    >>> DelayedAllocator()
    DelayedAllocator(first=24, factor=6)

    Notes
    -----
    Christen and Fox 2005, "Markov chain Monte Carlo using an approximation". Here the approximation is the acceptance
    ratio of the sub-problem of the first items; the ratio of the reverse move is its inverse.
    """

    _constraints: ClassVar = {"first": Integer(1), "factor": Integer(2)}

    def __init__(self, *, first: int = 24, factor: int = 6) -> None:
        self.first, self.factor = first, factor

    def assign(
        self, bound: _Bound, Phi: Any, rng: np.random.Generator, forced: npt.NDArray[np.int8] | None
    ) -> tuple[npt.NDArray[np.integer[Any]], float]:
        """Allocate by the sequential pass alone; return the sides (m,) and log q.

        The tests after the first items belong to the compiled kernel.
        """
        return SequentialAllocator().assign(bound, Phi, rng, forced)


class FrozenAllocator(Allocator):
    """Draw sides of rows given two clusters that passes of hard assignment have found.

    Each row first goes to the nearer anchor. A pass then learns the two clusters from their rows, and each row goes to
    the more probable one. A pass costs two matrix products: use this allocator for families that are written in NumPy.

    Parameters
    ----------
    n_rounds : int
        Rounds of hard assignment after the first one.

    Examples
    --------
    >>> from expfam.samplers.split_merge.allocators import FrozenAllocator
    >>> FrozenAllocator(n_rounds=1)
    FrozenAllocator(n_rounds=1)
    """

    _constraints: ClassVar = {"n_rounds": Integer(0)}

    def __init__(self, *, n_rounds: int = 2) -> None:
        self.n_rounds = n_rounds

    def assign(
        self, bound: _Bound, Phi: Any, rng: np.random.Generator, forced: npt.NDArray[np.int8] | None
    ) -> tuple[npt.NDArray[np.integer[Any]], float]:
        """Find hard sides in rounds, then draw each row; return the sides (m,) and log q.

        The hard sides are a function of the rows alone.
        """
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
    """Return the log-odds (m,) of side 0, given expected parameters of the sides of `rows`."""
    sides = sparse.csr_array((np.ones(len(rows)), (hard[rows], rows)), shape=(2, Phi.shape[0]))
    n, S = np.asarray(sides.sum(axis=1)).ravel(), sides @ Phi
    Theta, G = bound.family.expected_natural(n, S.toarray() if sparse.issparse(S) else S)
    mass = np.log((n[0] + bound.offset) / (n[1] + bound.offset))
    # beyond 600 nats the side is certain, and exp must not overflow
    return np.clip(Phi @ (Theta[0] - Theta[1]) - (G[0] - G[1]) + mass, -600.0, 600.0)


class _Codes:
    """Sign codes of all data: only compiled kernels can use them.

    The rows that `sides` is given do not tell which data they are.
    """

    def __init__(self, codes):
        self.codes = codes

    def sides(self, Phi, rng, forced=None):
        raise CapabilityError("CodeAllocator needs the row numbers of the data: use it in compiled kernels only")


class _Bound:
    """An allocator bound to the family and the masses of one model."""

    def __init__(self, settings, model):
        self.settings, self.family, self.offset = settings, model.family, model.weights.offset

    def sides(self, Phi, rng, forced=None):
        """Return the sides (m,) int8 and log q; see `Allocator`."""
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

    def remove(self, row):
        self.n[self.sides[row]] -= 1.0
        self.S[self.sides[row]] -= self.Phi[row]

    def place(self, row, rng, forced):
        """Draw the side of a row, or use the given one; return its log probability."""
        A = self.bound.family.log_marginal
        x = A(self.n + 1.0, self.S + self.Phi[row]) - A(self.n, self.S) + np.log(self.n + self.bound.offset)
        x -= np.logaddexp(x[0], x[1])
        side = int(rng.random() >= np.exp(x[0])) if forced is None else int(forced[row])
        self.put(row, side)
        return x[side]


def urn_log_q(n_a: Any, n_b: Any, offset: float) -> Any:
    """Return the log probability of one assignment of sizes n_a and n_b by the urns, nats.

    The sizes are numbers or arrays of one shape; the result has the same shape.
    """
    c = offset
    ends = gammaln(n_a + c) + gammaln(n_b + c) - gammaln(n_a + n_b + 2 * c)
    return ends - 2 * gammaln(1.0 + c) + gammaln(2.0 + 2 * c)

"""Agreement of several chains on a partition, however each chain numbers its clusters.

Only functions of the partition are compared: log joint, number of clusters, share of the largest cluster, entropy of
the sizes, and for some pairs of rows whether they are together. The log joint and the number of clusters alone are too
kind: chains may agree on both and join other rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from expfam.amounts import counted
from expfam.errors import DataError
from expfam.samplers.chain.diagnostics import bulk_ess, rhat, tail_ess, without_rounding
from expfam.structures.ground.rng import generator

N_PAIRS = 1000
MOST_RHAT = 1.05  # of chains that agree
LEAST_ESS = 25  # effective draws of the log joint a chain
_LEAST_DRAWS = 4
_JUDGED = ("pairs", "log_joint", "n_clusters")
_TITLES = {
    "pairs": "pair agreements",
    "log_joint": "log joint",
    "n_clusters": "number of clusters",
    "largest_share": "share of the largest cluster",
    "entropy": "entropy of the sizes",
    "vi_first": "VI to a draw of the first chain",
    "vi_last": "VI to a draw of the last chain",
}


class Convergence(NamedTuple):
    """How far chains agree on one number.

    Attributes
    ----------
    rhat : float
        Rank-normalised split R-hat; NaN where all draws of all chains are equal, or there are fewer than 4.
    bulk_ess, tail_ess : float
        Effective sample sizes of all chains together.
    """

    rhat: float
    bulk_ess: float
    tail_ess: float


@dataclass(frozen=True)
class Diagnostics:
    """How far chains agree on a partition.

    Attributes
    ----------
    n_chains, n_draws : int
        Chains, and draws of each of them: every step after the warm-up of a fit, else the draws that were kept.
    scalars : dict of str to Convergence
        "log_joint" where it is known, "n_clusters", "largest_share", "entropy"; "vi_first" and "vi_last", the
        variation of information of the kept draws to one of the first chain and to one of the last; hyper-parameters
        that are drawn with the partition, such as "rate_factor", the rate over its value at binding, and "alpha".
    rhat_pairs : float
        Pooled R-hat of the agreements of pairs of rows, see `pooled_rhat`.
    deviation_mean, deviation_max : float
        Standard deviation over chains of the probability that a pair is together: mean and largest of all pairs. NaN
        for one chain.
    widest : tuple of float
        Least and largest probability, over chains, that the pair on which they differ most is together.
    """

    n_chains: int
    n_draws: int
    scalars: Mapping[str, Convergence]
    rhat_pairs: float
    deviation_mean: float
    deviation_max: float
    widest: tuple[float, float]

    @property
    def rhats(self) -> dict[str, float]:
        """R-hat by name: that of pairs first, then those of `scalars`."""
        return {"pairs": self.rhat_pairs} | {name: value.rhat for name, value in self.scalars.items()}

    @property
    def judged(self) -> tuple[str, ...]:
        """Names by which chains are judged: pairs, log joint, number of clusters, hyper-parameters."""
        return tuple(name for name in self.rhats if name not in _TITLES or name in _JUDGED)

    @property
    def have_agreed(self) -> bool:
        """Whether the chains agree and are long enough.

        R-hat of pairs, log joint, number of clusters and each hyper-parameter is then at most 1.05, and there are 25
        effective draws of the log joint a chain. What never changes in any chain counts as agreed.
        """
        rhats = self.rhats
        return not any(rhats[name] > MOST_RHAT for name in self.judged) and not self.is_short

    @property
    def is_short(self) -> bool:
        """Whether the chains have fewer than 25 effective draws of the log joint each."""
        found = self.scalars.get("log_joint")
        return found is not None and found.bulk_ess < LEAST_ESS * self.n_chains

    def __str__(self):
        lines = [f"{counted(self.n_chains, 'chain')} of {counted(self.n_draws, 'draw')}"]
        lines.append(f"{'':34}{'R-hat':>8}{'bulk ESS':>10}{'tail ESS':>10}")
        lines.append(f"{_TITLES['pairs']:34}{self.rhat_pairs:8.2f}")
        for name, value in self.scalars.items():
            lines.append(f"{_TITLES.get(name, name):34}{value.rhat:8.2f}{value.bulk_ess:10.0f}{value.tail_ess:10.0f}")
        if self.n_chains > 1:
            lines.append(
                f"probability of a pair over chains: standard deviation {self.deviation_mean:.2f} on average, at most"
                f" {self.deviation_max:.2f} ({self.widest[0]:.2f} to {self.widest[1]:.2f})"
            )
        return "\n".join(lines)


def choose_pairs(labels: npt.ArrayLike, *, seed: int, n_pairs: int = N_PAIRS) -> npt.NDArray[np.int64]:
    """Draw pairs of rows, half of them at random and half within clusters.

    Rows of random pairs nearly never meet where there are many clusters.

    Parameters
    ----------
    labels : (N,) array_like of int
        A partition, for the second half.
    seed : int
    n_pairs : int

    Returns
    -------
    (P, 2) int64 ndarray
        Two different rows each; empty for one row.

    Examples
    --------
    >>> from expfam.samplers.chain.agreement import choose_pairs
    >>> choose_pairs([0, 0, 1, 1, 0], seed=1, n_pairs=6).shape
    (6, 2)
    """
    labels = np.asarray(labels)
    N, rng = len(labels), generator(seed, "subsample", unit=1)
    if N < 2:
        return np.empty((0, 2), dtype=np.int64)
    first = rng.integers(0, N, n_pairs)
    second = (first + rng.integers(1, N, n_pairs)) % N
    order = np.argsort(labels, kind="stable")
    place = np.empty(N, dtype=np.int64)
    place[order] = np.arange(N)
    _, cluster, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    begin = np.cumsum(sizes) - sizes
    within = np.arange(n_pairs) % 2 == 1
    size, start = sizes[cluster[first]], begin[cluster[first]]
    shift = 1 + np.floor(rng.random(n_pairs) * (size - 1)).astype(np.int64)
    inside = order[start + (place[first] - start + shift) % size]
    return np.stack([first, np.where(within & (size > 1), inside, second)], axis=1)


def pooled_rhat(together: npt.ArrayLike) -> float:
    """Return the pooled R-hat of agreements of pairs.

    Parameters
    ----------
    together : (chains, draws, P) array_like of bool
        Whether the rows of each pair are together in each draw; at least 4 draws.

    Returns
    -------
    float
        NaN if no pair ever changes and all chains agree; infinity if none changes and they do not.

    Notes
    -----
    Most agreements never change within a chain, so each alone says nothing. With chains split in halves of n draws it
    is ``sqrt((n - 1)/n + sum_p Var_chains(mean_p) / sum_p mean_chains(Var_p))``.

    Examples
    --------
    >>> from expfam.samplers.chain.agreement import pooled_rhat
    >>> pooled_rhat([[[1], [0], [0], [1]], [[0], [1], [1], [0]]]) < 1
    True
    """
    together = np.asarray(together, dtype=bool)
    if together.ndim != 3 or together.shape[1] < _LEAST_DRAWS:
        raise ValueError(f"together must have shape (chains, draws, P) with at least 4 draws; got {together.shape}")
    means = np.concatenate([_halves(chain) for chain in together])
    return _rhat_of_means(means, together.shape[1] // 2)


def _halves(together):
    """Return the share of the draws of each half of a chain in which pairs are together: (2, P)."""
    half = len(together) // 2
    return np.stack([together[:half].mean(axis=0), together[-half:].mean(axis=0)])


def _rhat_of_means(means, n):
    between = float(means.var(axis=0, ddof=1).sum())
    within = float((means * (1.0 - means)).mean(axis=0).sum()) * n / (n - 1)
    if within <= 0:
        return np.inf if between > 1e-12 else np.nan
    return float(np.sqrt((n - 1) / n + between / within))


class StepRecord(NamedTuple):
    """Numbers of every counted step of several chains, cut to the shortest.

    Attributes
    ----------
    scalars : dict of str to (C, n) float64 ndarray
    together : (C, n, bytes) uint8 ndarray
        Bits of the agreements of pairs, as `numpy.packbits` makes them.
    pairs : (P, 2) int64 ndarray
    """

    scalars: Mapping[str, npt.NDArray[np.float64]]
    together: npt.NDArray[np.uint8]
    pairs: npt.NDArray[np.int64]

    def diagnose(self, more: Mapping[str, npt.ArrayLike] | None = None) -> Diagnostics:
        """Compute the diagnostics; `more` are further scalars by name, (C, m) each."""
        scalars = {name: convergence(values) for name, values in {**self.scalars, **(more or {})}.items()}
        n_chains, n_draws = self.together.shape[:2]
        P = len(self.pairs)
        if n_draws < _LEAST_DRAWS or not P:
            return Diagnostics(n_chains, n_draws, scalars, np.nan, np.nan, np.nan, (np.nan, np.nan))
        halves, means = [], []
        for bits in self.together:  # one chain at a time in full
            together = np.unpackbits(bits, axis=1, count=P)
            halves.append(_halves(together))
            means.append(together.mean(axis=0))
        deviation = np.std(means, axis=0, ddof=1) if n_chains > 1 else np.full(P, np.nan)
        widest = np.array(means)[:, int(np.argmax(deviation))]
        return Diagnostics(
            n_chains,
            n_draws,
            scalars,
            _rhat_of_means(np.concatenate(halves), n_draws // 2),
            float(deviation.mean()),
            float(deviation.max()),
            (float(widest.min()), float(widest.max())),
        )


class PartitionRecorder:
    """Callback that records, at every step, the quantities by which chains are compared.

    Parameters
    ----------
    pairs : (P, 2) array_like of int
        Pairs of rows, see `choose_pairs`.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from expfam.protocols import Info
    >>> from expfam.samplers.chain.agreement import PartitionRecorder
    >>> recorder = PartitionRecorder([[0, 1], [1, 2]])
    >>> recorder(Info(1, -3.0, 2, 3, 1, 0.1, {}), SimpleNamespace(labels=[0, 0, 1]))
    False
    >>> len(recorder)
    1
    """

    def __init__(self, pairs: npt.ArrayLike) -> None:
        self.pairs = np.asarray(pairs, dtype=np.int64)
        self._numbers: list[tuple[float, ...]] = []
        self._together: list[npt.NDArray[np.uint8]] = []

    def __len__(self) -> int:
        return len(self._numbers)

    def __call__(self, info: Any, state: Any) -> bool:
        """Record a step; never end the run."""
        labels = np.asarray(state.labels)
        self._numbers.append((float(info.objective), float(info.n_clusters), *_size_numbers(labels)))
        self._together.append(np.packbits(labels[self.pairs[:, 0]] == labels[self.pairs[:, 1]]))
        return False

    def first(self, n: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.uint8]]:
        """Return the numbers (4, n) and the agreements (n, bytes) of the first n steps."""
        n_bytes = -(-len(self.pairs) // 8)
        return (
            np.array(self._numbers[:n], dtype=np.float64).reshape(n, 4).T,
            np.array(self._together[:n], dtype=np.uint8).reshape(n, n_bytes),
        )


def record_of_steps(
    recorders: list[PartitionRecorder], more: Mapping[str, npt.NDArray[np.float64]] | None = None
) -> StepRecord:
    """Return what recorders of several chains have seen, cut to the shortest.

    Parameters
    ----------
    recorders : list of PartitionRecorder
        One for each of C chains, all with the same pairs of rows.
    more : mapping of str to (C, n) float64 ndarray, optional
        Further scalars by name.

    Returns
    -------
    StepRecord
    """
    n = min(map(len, recorders))
    numbers, together = zip(*(recorder.first(n) for recorder in recorders))
    names = ("log_joint", "n_clusters", "largest_share", "entropy")
    scalars = {**dict(zip(names, np.stack(numbers, axis=1))), **(more or {})}
    return StepRecord(scalars, np.stack(together), recorders[0].pairs)


def record_of_draws(
    draws: npt.NDArray[Any], chain: npt.NDArray[np.int64], log_joint: npt.NDArray[np.float64] | None
) -> StepRecord:
    """Return the record of draws of partitions, in the place of that of steps.

    Parameters
    ----------
    draws : (M, N) ndarray of int
    chain : (M,) int64 ndarray
        Chain of each draw; of each chain the first draws count, as many as the shortest has.
    log_joint : (M,) float64 ndarray or None

    Returns
    -------
    StepRecord
    """
    rows = rows_of_chains(chain)
    pairs = choose_pairs(draws[0], seed=0)
    numbers = np.array([[_n_clusters(draws[m]), *_size_numbers(draws[m])] for m in rows.ravel()])
    scalars = dict(zip(("n_clusters", "largest_share", "entropy"), numbers.T.reshape(3, *rows.shape)))
    if log_joint is not None:
        scalars = {"log_joint": log_joint[rows], **scalars}
    together = [[np.packbits(draws[m][pairs[:, 0]] == draws[m][pairs[:, 1]]) for m in one] for one in rows]
    return StepRecord(scalars, np.array(together, dtype=np.uint8), pairs)


def rows_of_chains(chain: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Return the places of the draws of each chain, cut to the shortest chain: (C, m)."""
    chain = np.asarray(chain)
    if chain.ndim != 1 or not chain.size:
        raise DataError(f"chain must have shape (M,) with at least one draw; got {chain.shape}")
    rows = [np.flatnonzero(chain == one) for one in np.unique(chain)]
    least = min(map(len, rows))
    return np.array([one[:least] for one in rows], dtype=np.int64)


def convergence(draws: npt.ArrayLike) -> Convergence:
    """Return R-hat and effective sample sizes of (chains, draws); NaN for fewer than 4 draws."""
    draws = np.atleast_2d(without_rounding(draws))
    if draws.shape[1] < _LEAST_DRAWS:
        return Convergence(np.nan, np.nan, np.nan)
    return Convergence(rhat(draws), bulk_ess(draws), tail_ess(draws))


def _n_clusters(labels):
    return len(np.unique(labels))


def _size_numbers(labels):
    """Return the share of the largest cluster and the entropy of the sizes, nats."""
    sizes = np.bincount(labels)
    share = sizes[sizes > 0] / len(labels)
    return float(share.max()), float(-(share @ np.log(share)))

"""Splits and merges of one step: pairs of data, tried at a bounded cost.

Jain and Neal 2004, "A split-merge Markov chain Monte Carlo procedure for the Dirichlet process mixture model"; the
division by one sequential pass is that of Dahl 2005, "Sequentially-allocated merge-split sampler for conjugate and
nonconjugate Dirichlet process mixture models".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from expfam.params import POSITIVE, Integer, is_auto

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

CONSTRAINTS: dict[str, Any] = {"n_tries": ("auto", Integer(1)), "work": POSITIVE}  # of the settings of both kernels


class Tries(NamedTuple):
    """What became of the pairs of a step.

    Attributes
    ----------
    n_tried, n_accepted, n_split : int
        Pairs that were tried, those that changed the state, and those of them that divided a cluster.
    """

    n_tried: int
    n_accepted: int
    n_split: int


def number_of_pairs(n_tries: int | Literal["auto"], work: float, n_data: int, always: int) -> int:
    """Return the number of pairs of a step.

    Parameters
    ----------
    n_tries : int or "auto"
        Number of pairs; "auto" takes as many as visit `work` times all data.
    work : float
    n_data : int
        Number of rows or tokens.
    always : int
        Number of data in the clusters of a pair.

    Examples
    --------
    >>> from expfam.samplers.nonparametric.pairs import number_of_pairs
    >>> number_of_pairs("auto", 0.5, 1000, 50), number_of_pairs(3, 0.5, 1000, 50)
    (10, 3)
    """
    return max(1, int(work * n_data / always)) if is_auto(n_tries) else int(n_tries)


def try_pairs(
    pairs: npt.NDArray[np.integer],
    attempt: Callable[[int, int, float, int], int],
    *,
    size_of: Callable[[int, int], int],
    most: float,
    rng: np.random.Generator,
) -> Tries:
    """Try a move for each pair of data.

    Parameters
    ----------
    pairs : (M, 2) ndarray of int
        Two equal numbers stand for no move.
    attempt : callable
        ``attempt(u, v, log_u, place)`` makes the move of a pair where it is accepted: 1 for a split, -1 for a merge, 0
        for none. `log_u` is the log of a uniform number.
    size_of : callable
        ``size_of(u, v)``: data in the clusters of a pair, the same before and after its move.
    most : float
        Data that all tries visit at most on average. A pair whose clusters hold n data is tried with probability
        min(1, most / (M n)).
    rng : numpy Generator

    Returns
    -------
    Tries
    """
    n_tried = n_accepted = n_split = 0
    for place, (u, v) in enumerate(pairs.tolist()):
        kept, log_u = rng.random(), float(np.log(rng.random()))
        if u == v or kept * len(pairs) * size_of(u, v) > most:
            continue
        done = attempt(u, v, log_u, place)
        n_tried += 1
        n_accepted += done != 0
        n_split += done > 0
    return Tries(n_tried, n_accepted, n_split)

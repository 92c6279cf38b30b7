"""Clusters that are divided in two: what splits and merges ask of their rows.

Given log-odds that are the same for all rows of a cluster, the sides of rows are independent. So each part of the data
draws those of its own rows, with random numbers of the rows, and answers sums that add up: the statistics of side 1 and
the log probability of all sides. Both are exact sums, so they are the same bits for any number of parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from expfam.model.label_sums import LabelSums, Scale, label_sums, phi_blocks
from expfam.samplers.states.side_scores import LARGEST, dense_scores, log_sides, sparse_scores
from expfam.structures.ground.rng import log_uniforms_of
from expfam.structures.rows.exact_sums import lifts

if TYPE_CHECKING:
    from expfam.protocols import Floats

    Labels = npt.NDArray[np.int32]

_ROW_BITS = 40  # of the unit of a random number; the others hold the number of the move


@dataclass(frozen=True, eq=False)
class Division:
    """Clusters that are divided, M of them, and the law of the sides of their rows.

    Attributes
    ----------
    move_of : (K,) int32 ndarray
        Which division the rows of a label belong to; -1 for none.
    given : (K,) int8 ndarray
        The side of the rows of a label; -1 where each row draws its own.
    table : (M, F) float64 ndarray
    origin : (M,) float64 ndarray
        The log-odds of side 0 of a row are ``phi @ table[m] + origin[m]``.
    fixed : (R,) int64 ndarray
        Global numbers, in order, of rows whose sides are known, whatever their log-odds.
    fixed_sides : (R,) int8 ndarray
    numbers : (M,) int64 ndarray
        The numbers of the moves of a step, which key the random numbers of the rows.
    n_rows : int
        Number of all rows, in any part.
    seed, step : int
    """

    move_of: Labels
    given: npt.NDArray[np.int8]
    table: Floats
    origin: Floats
    fixed: npt.NDArray[np.int64]
    fixed_sides: npt.NDArray[np.int8]
    numbers: npt.NDArray[np.int64]
    n_rows: int
    seed: int
    step: int


class Sides:
    """What rows answer to a division; ``a + b`` is the answer of the rows of both.

    Attributes
    ----------
    sums : LabelSums
        Of the rows on side 1, for each division.
    pieces : (3, M) float64 ndarray
        Pieces of the log probability of the sides of all rows but the fixed ones.
    """

    __slots__ = ("pieces", "sums")

    def __init__(self, sums: LabelSums, pieces: Floats) -> None:
        self.sums, self.pieces = sums, pieces

    def __add__(self, other: Sides) -> Sides:
        return Sides(self.sums + other.sums, self.pieces + other.pieces)

    def __getstate__(self):
        return self.sums, self.pieces

    def __setstate__(self, state):
        self.sums, self.pieces = state

    def log_q(self) -> Floats:
        """Return the log probability of the sides of each division: (M,) float64, nats."""
        return self.pieces[0] + (self.pieces[1] + self.pieces[2])


class _Block(NamedTuple):
    """Some rows of divided clusters: numbers, divisions, sides, and log q of these."""

    rows: npt.NDArray[np.intp]
    move: Labels
    sides: npt.NDArray[np.int8]
    log_q: Floats


def sides_of(data: Any, labels: Labels, division: Division, scale: Scale) -> Sides:
    """Draw the sides of the rows of a part; return the sums that they add up to.

    Parameters
    ----------
    data : Dataset
        Rows of the part; `row_offset` is the global number of the first.
    labels : (n,) int32 ndarray
    division : Division
    scale : Scale
        Of the sums of statistics of all rows.
    """
    n_moves = division.origin.size
    on_one, pieces = np.full(labels.size, -1, dtype=np.int32), np.zeros((3, n_moves))
    lift = lifts(np.array([2.0 * LARGEST]), max(division.n_rows, 1))[:, 0]
    for rows, move, sides, log_q in _blocks_of_sides(data, labels, division):
        on_one[rows] = np.where(sides == 1, move, -1)
        for p in range(3):
            piece = (log_q + lift[p]) - lift[p]
            pieces[p] += np.bincount(move, weights=piece, minlength=n_moves)  # exact: in any order
            log_q = log_q - piece
    return Sides(label_sums(data, on_one, n_moves, scale), pieces)


def divided_labels(data: Any, labels: Labels, division: Division | None, relabelled: Labels, target: Labels) -> Labels:
    """Return the labels of the rows of a part after splits and merges.

    Parameters
    ----------
    data : Dataset
    labels : (n,) int32 ndarray
    division : Division or None
        Its sides are drawn again, the same ones.
    relabelled : (K,) int32 ndarray
        New label of the rows of each label.
    target : (M,) int32 ndarray
        New label of the rows that draw side 1 of each division; -1 where there is none.
    """
    found = relabelled[labels]
    if division is not None:
        for rows, move, sides, _ in _blocks_of_sides(data, labels, division):
            moves = (sides == 1) & (target[move] >= 0)
            found[rows[moves]] = target[move[moves]]
    return found


def _blocks_of_sides(data: Any, labels: Labels, division: Division) -> Iterator[_Block]:
    """Yield blocks of the rows of divided clusters with their sides."""
    members = np.flatnonzero(division.move_of[labels] >= 0)
    for rows, phi in phi_blocks(data, members):
        move, given = division.move_of[labels[rows]], division.given[labels[rows]]
        score = sparse_scores if sparse.issparse(phi) else dense_scores
        odds = score(phi, division.table, division.origin, move)
        sides = np.where(given < 0, _drawn_sides(odds, rows, move, data.row_offset, division), given)
        log_q = log_sides(odds, sides)
        here, known = _fixed_here(rows + data.row_offset, division)
        sides[here], log_q[here] = known, 0.0
        yield _Block(rows, move, sides, log_q)


def _drawn_sides(odds, rows, move, row_offset, division):
    """Return the side that each row draws: (n,) int8."""
    number = division.numbers[move].astype(np.uint64)
    units = (number << np.uint64(_ROW_BITS)) + (rows + row_offset).astype(np.uint64)
    draws = log_uniforms_of(division.seed, "side", units, division.step)
    return (draws > log_sides(odds, np.zeros(rows.size, dtype=np.int8))).astype(np.int8)


def _fixed_here(numbers, division):
    """Return the places of fixed rows among rows with these numbers, and their sides."""
    first, stop = np.searchsorted(division.fixed, [numbers[0], numbers[-1] + 1])
    fixed = division.fixed[first:stop]
    places = np.searchsorted(numbers, fixed)
    is_here = numbers[places] == fixed
    return places[is_here], division.fixed_sides[first:stop][is_here]

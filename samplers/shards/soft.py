"""Soft labels of rows in parts.

Each segment of the rows is summed whole, by the part in which it begins.

The sums of a segment are added in the order of its rows, so a part that ends within one borrows the rows that complete
it, and leaves those of its first rows whose segment begins elsewhere to another part. These are sent once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from expfam.engines.parts import Least, Part
from expfam.samplers.shards.sample import gathered, gathered_weights
from expfam.samplers.uncollapsed.em import expected_rows
from expfam.samplers.uncollapsed.soft_sums import Bounds, Sizes, SoftSums, no_sums

if TYPE_CHECKING:
    from expfam.engines.base import Engine
    from expfam.model.data import Dataset


class Cuts(NamedTuple):
    """Where segments begin and end in the rows of a part.

    Attributes
    ----------
    first : int
        The first row that begins a segment, by its number in the part; the number of rows if there is none.
    stop : int
        The rows from here on belong to a segment that does not end in the part.
    n_borrowed : int
        Number of rows of other parts that complete this segment.
    """

    first: int
    stop: int
    n_borrowed: int


class SoftPart(NamedTuple):
    """What a part needs to sum whole segments.

    Attributes
    ----------
    sizes : Sizes
    bounds : Bounds
        Of all data.
    cuts : Cuts
    rows : (n_borrowed, V) ndarray or CSR, or None
        Rows of other parts.
    weight : (n_borrowed,) float64 ndarray or None
    """

    sizes: Sizes
    bounds: Bounds
    cuts: Cuts
    rows: Any
    weight: Any


class SoftReply:
    """Answer of parts to an expectation; ``a + b`` is that of the rows of both.

    Attributes
    ----------
    n_moved : int
        Number of rows whose most probable component changed.
    sums : SoftSums
    first : Least
        Global number of the first row of each component.
    """

    __slots__ = ("first", "n_moved", "sums")

    def __init__(self, n_moved: int, sums: SoftSums, first: Least) -> None:
        self.n_moved, self.sums, self.first = n_moved, sums, first

    def __add__(self, other: SoftReply) -> SoftReply:
        return SoftReply(self.n_moved + other.n_moved, self.sums + other.sums, self.first + other.first)

    def __getstate__(self):
        return self.n_moved, self.sums, self.first

    def __setstate__(self, state):
        self.n_moved, self.sums, self.first = state


def cuts_of(part: Part, n_rows: int, segment_rows: int) -> Cuts:
    """Return where segments of all data lie in a part.

    Parameters
    ----------
    part : Part
    n_rows : int
        Number of rows of all parts.
    segment_rows : int
        Number of rows of a segment.

    Examples
    --------
    >>> from expfam.engines import Part
    >>> from expfam.samplers.shards.soft import cuts_of
    >>> cuts_of(Part(1000, 2000, None), 5000, 1024)
    Cuts(first=24, stop=1048, n_borrowed=72)
    """
    start, stop = part.first_row, part.first_row + part.n_rows
    first = -(-start // segment_rows) * segment_rows
    if first >= stop:
        return Cuts(part.n_rows, part.n_rows, 0)
    last = stop if stop == n_rows else stop // segment_rows * segment_rows
    n_borrowed = min(last + segment_rows, n_rows) - stop if last < stop else 0
    return Cuts(first - start, last - start, n_borrowed)


def lend(engine: Engine, sizes: Sizes, bounds: Bounds, *, is_weighted: bool) -> None:
    """Give each part the rows that complete its last segment.

    Parameters
    ----------
    engine : Engine
    sizes : Sizes
        Sizes of all data, which say where segments begin.
    bounds : Bounds
        Bounds of the statistics of all rows.
    is_weighted : bool
        Whether rows have weights.
    """
    cuts = [cuts_of(part, sizes.n_rows, sizes.segment_rows) for part in engine.parts]
    ends = [part.first_row + part.n_rows for part in engine.parts]
    wanted = [np.arange(end, end + cut.n_borrowed) for end, cut in zip(ends, cuts)]
    numbers = np.concatenate(wanted)  # in order: no row completes two segments
    rows, weight, by_part, place = None, None, [], 0
    if numbers.size:
        rows = gathered(engine, numbers)
        weight = gathered_weights(engine, numbers) if is_weighted else None
    for cut in cuts:
        own = slice(place, place + cut.n_borrowed)
        place += cut.n_borrowed
        taken = None if rows is None or not cut.n_borrowed else rows[own]
        by_part.append((cut, taken, None if weight is None or taken is None else weight[own]))
    engine.change("borrow", sizes, bounds, by_part=by_part)


def soft_labels(
    data: Dataset, soft: SoftPart, state: Any, n_threads: int | None
) -> tuple[npt.NDArray[np.int32], SoftSums]:
    """Return the most probable component of each row of a part, and its soft sums.

    Parameters
    ----------
    data : Dataset
        Rows of the part.
    soft : SoftPart
    state : Parameters
    n_threads : int or None
    """
    labels, (first, stop, _) = np.empty(data.n_rows, dtype=np.int32), soft.cuts
    fixed = (state, soft.sizes, soft.bounds, n_threads)
    if first > 0:
        expected_rows(data, *fixed, 0, first, labels, is_summed=False)
    sums = no_sums()
    if stop > first:
        sums = sums + expected_rows(data, *fixed, first, stop, labels)
    if stop < data.n_rows:
        seam = _seam(data, soft)
        of_seam = np.empty(seam.n_rows, dtype=np.int32)
        sums = sums + expected_rows(seam, *fixed, 0, seam.n_rows, of_seam)
        labels[stop:] = of_seam[: data.n_rows - stop]
    return labels, sums


def _seam(data, soft):
    """Return the rows of the last segment, of which some were borrowed."""
    seam = data.rows(soft.cuts.stop, data.n_rows)
    rows = [seam.X, soft.rows]
    seam.X = sparse.csr_array(sparse.vstack(rows)) if sparse.issparse(seam.X) else np.concatenate(rows)
    seam.n_rows = int(seam.X.shape[0])
    if data.weight is not None:
        seam.weight = np.append(data.weight[soft.cuts.stop :], soft.weight)
    return seam

"""A part of the data with its labels: what a worker does with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from expfam.engines.parts import Least
from expfam.errors import CapabilityError
from expfam.families.all_rows import Block
from expfam.families.weighing import checked_weight
from expfam.frames.names import rows_from
from expfam.model.assignment import assigned_labels
from expfam.model.data import Dataset
from expfam.model.label_sums import (
    LabelSums,
    PhiBounds,
    Scale,
    label_sums,
    moved_sums,
    phi_bounds,
    weighted_label_sums,
)
from expfam.samplers.shards.checkpoint import read_rows, write_rows
from expfam.samplers.shards.soft import Cuts, SoftPart, SoftReply, soft_labels
from expfam.samplers.starts.rules import starting_labels
from expfam.samplers.states.divisions import Division, Sides, divided_labels, sides_of
from expfam.samplers.states.sticks import log_slices

if TYPE_CHECKING:
    from expfam.protocols import Floats
    from expfam.samplers.states.divisions import Labels
    from expfam.samplers.uncollapsed.soft_sums import Bounds, Sizes, SoftSums

NO_ROW = np.iinfo(np.int64).max  # first row of a cluster without data
_SAVED = ("labels", "kept", "scale", "K", "soft")  # attributes that another shard of the same rows needs


class WeightedRows(NamedTuple):
    """Rows of a part with their weights: the source of a `Part`, or what its function returns.

    Attributes
    ----------
    rows : (n, V) array_like or sparse matrix
    weight : (n,) array_like of non-negative float
        How often each row counts.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Poisson
    >>> from expfam.engines import Part
    >>> from expfam.samplers import ShardedData, WeightedRows
    >>> rows = WeightedRows(np.array([[1], [3]]), [2.0, 1.0])
    >>> ShardedData([Part(0, 2, rows)], Poisson()).is_weighted
    True
    """

    rows: Any
    weight: Any

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the rows."""
        return tuple(self.rows.shape)


@dataclass(frozen=True, eq=False)
class Parameters:
    """What shards need to draw labels: parameters, weights, and statistics of all data.

    Attributes
    ----------
    model : MixtureModel
    n, S : (K,) and (K, F) ndarray
        Statistics of all data, from which the parameters were made.
    Theta, G, log_pi : (K, F), (K,) and (K,) float64 ndarray
    seed, n_steps : int
    """

    model: Any
    n: Floats
    S: Any
    Theta: Any
    G: Any
    log_pi: Any
    seed: int
    n_steps: int

    @property
    def K(self) -> int:
        """Number of components."""
        return int(self.n.shape[0])


class PartState:
    """State of a part as `draw_labels` reads it: rows and labels of it, parameters of all data.

    Attributes
    ----------
    data : Dataset
        Rows of the part; `row_offset` is the global number of the first.
    labels : (n,) int32 ndarray
    model, n, S, Theta, G, log_pi, seed, n_steps, K
        See `Parameters`.
    """

    def __init__(self, data: Dataset, labels: npt.NDArray[np.int32], parameters: Parameters) -> None:
        self.data, self.labels, self.memory = data, labels, {}  # type: Dataset, Any, dict[str, Any]
        self.model, self.K = parameters.model, parameters.K
        self.n, self.S = parameters.n, parameters.S
        self.Theta, self.G, self.log_pi = parameters.Theta, parameters.G, parameters.log_pi
        self.seed, self.n_steps = parameters.seed, parameters.n_steps


class Reply:
    """Answer of shards to a sweep; ``a + b`` is that of the rows of both.

    Attributes
    ----------
    n_moved : int
        Number of rows whose label changed.
    sums : LabelSums
        By how much the sums of the clusters changed.
    extra : list of (int, int, dict)
        First row, number of rows and diagnostics of each part.
    """

    __slots__ = ("extra", "n_moved", "sums")

    def __init__(self, n_moved: int, sums: LabelSums, extra: list[tuple[int, int, dict[str, Any]]]) -> None:
        self.n_moved, self.sums, self.extra = n_moved, sums, extra

    def __add__(self, other: Reply) -> Reply:
        return Reply(self.n_moved + other.n_moved, self.sums + other.sums, self.extra + other.extra)

    def __getstate__(self):
        return self.n_moved, self.sums, self.extra

    def __setstate__(self, state):
        self.n_moved, self.sums, self.extra = state

    def means(self) -> dict[str, Any]:
        """Return the mean of each diagnostic over the rows."""
        parts = sorted(self.extra, key=lambda part: part[0])
        total = sum(n_rows for _, n_rows, _ in parts)
        names = parts[0][2] if parts else {}
        return {name: sum(n_rows * extra[name] for _, n_rows, extra in parts) / total for name in names}


class Shard:
    """Rows of a part, and the labels that a chain gives them.

    It is made where the rows are to stay. Engines ask it by the names of its methods. The methods `check`, `bind`,
    `begin`, `begin_near`, `redraw`, `divide`, `borrow`, `expect`, `keep`, `take_kept`, `set_labels`, `read_labels` and
    `restore` change it: they replace attributes and write into none.

    Parameters
    ----------
    X : (n, V) array_like or sparse matrix, or WeightedRows
    first_row : int
        Global number of the first row.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Poisson
    >>> from expfam.samplers.shards.shard import Shard
    >>> shard = Shard(np.array([[1], [3]]), 10)
    >>> shard.bind(Poisson().bind([[1], [3], [9]])).most
    array([3.])
    """

    data: Dataset
    labels: npt.NDArray[np.int32]
    kept: npt.NDArray[np.int32]
    soft: SoftPart

    def __init__(self, X: Any, first_row: int) -> None:
        X, weight = X if isinstance(X, WeightedRows) else (X, None)
        self.X: Any = X.tocsr() if sparse.issparse(X) else np.asarray(X)
        self.first_row, self.weight = int(first_row), None
        if weight is not None:
            self.weight = checked_weight(weight, self.X.shape[0], first_row=self.first_row, is_part=True)

    # ---- binding and start -------------------------------------------------------------------------------------------

    def check(self, family: Any) -> None:
        """Check the rows against a family that is not bound yet."""
        with rows_from(self.first_row):
            self.X = family.validate(self.X)

    def answer(self, question: Any, is_weighted: bool, reads_uncounted: bool) -> Any:
        """Return the answer of the rows to a question; see `expfam.families.all_rows`.

        Rows of weight 0 are left out unless the question is one about all rows.

        Parameters
        ----------
        question : callable
            Called with the `Block` of the rows of this part.
        is_weighted : bool
            Whether the rows of any part have weights; if not, the block has none.
        reads_uncounted : bool
            Whether the question is one about all rows.
        """
        X, weight = self.X, self.weight
        if weight is not None and not (reads_uncounted or weight.all()):
            X, weight = X[weight > 0], weight[weight > 0]
        return question(Block(X, weight if is_weighted else None, self.first_row))

    def bind(self, family: Any) -> PhiBounds:
        """Check the rows against a bound family; return the bounds of their statistics."""
        with rows_from(self.first_row):
            self.data = Dataset(self.X, family, row_offset=self.first_row)
        self.X, self.data.weight = self.data.X, self.weight
        return phi_bounds(self.data)

    def kind(self) -> dict[str, Any]:
        """Return of what kind the rows and their weights are, and their numbers."""
        n_rows, n_columns = (int(size) for size in self.X.shape)
        weight = np.ones(n_rows) if self.weight is None else self.weight
        return {
            "is_sparse": sparse.issparse(self.X),
            "n_rows": n_rows,
            "n_columns": n_columns,
            "is_weighted": self.weight is not None,
            "dtype": self.X.dtype,
            "n_counted": int(np.count_nonzero(weight)),
            "is_of_ones": bool(((weight == 0) | (weight == 1)).all()),
        }

    def largest(self) -> tuple[Any, Any]:
        """Return the largest value of each column, and the global number of its first row."""
        X: Any = self.X.toarray() if sparse.issparse(self.X) else self.X
        return X.max(axis=0), X.argmax(axis=0) + self.first_row

    def weighted_bounds(self) -> PhiBounds:
        """Return the bounds of the weighted statistics of the rows, and of the weights."""
        return self.data.weighted_bounds

    def n_nonzero(self) -> int:
        """Return how many entries of the rows are not 0."""
        return self.data.n_nonzero

    def has_sparse_phi(self) -> bool:
        """Return whether the statistics of the rows are sparse."""
        return self.data.has_sparse_phi

    def begin(self, model: Any, start: str, n_first: int, n_clusters: int, scale: Scale, seed: int) -> LabelSums:
        """Give the rows the labels of a start with `n_first` clusters; return sums of `n_clusters`.

        Parameters
        ----------
        model : MixtureModel
        start : str
            Name of a start that needs no other rows than those of this part.
        n_first : int
            Number of clusters that the start makes.
        n_clusters : int
            K, the number of clusters of the state.
        scale : Scale
            How terms are split into pieces so that sums over all parts are exact.
        seed : int
            Seed of the chain, 64 bits.
        """
        labels = starting_labels(start, model, self.data, seed=seed, n_clusters=n_first)
        return self.set_labels(n_clusters, scale, labels)

    def begin_near(self, model: Any, n: Floats, S: Any, n_clusters: int, scale: Scale) -> LabelSums:
        """Give each row its most probable cluster of those with n and S; return the new sums.

        Parameters
        ----------
        model : MixtureModel
        n : (B,) float64 ndarray
            Number of rows of each cluster.
        S : (B, F) float64 ndarray or CSR
            Sums of their phi.
        n_clusters, scale
            As in `begin`.
        """
        with np.errstate(divide="ignore"):  # no row may choose an empty cluster
            log_mass = np.log(model.weights.posterior_mean(n)[0])
        return self.set_labels(n_clusters, scale, assigned_labels(model, self.data, n, S, log_mass))

    def set_labels(self, n_clusters: int, scale: Scale, labels: Any) -> LabelSums:
        """Replace the labels; return their sums.

        Parameters
        ----------
        n_clusters, scale
            As in `begin`.
        labels : (n,) array_like of int
            Cluster of each row of this part.
        """
        self.labels, self.scale, self.K = np.array(labels, dtype=np.int32), scale, n_clusters
        return self.sums()

    # ---- sweeps ------------------------------------------------------------------------------------------------------

    def redraw(self, kernel: Any, parameters: Parameters) -> Reply:
        """Draw new labels given parameters; return what changed."""
        state = PartState(self.data, self.labels, parameters)
        return self.take_drawn(parameters.K, *kernel.new_labels(state))

    def take_drawn(self, n_clusters: int, labels: npt.NDArray[np.int32], extra: dict[str, Any]) -> Reply:
        """Take labels that were drawn, and return what changed; the end of a change.

        Parameters
        ----------
        n_clusters : int
            K, the number of clusters of the state.
        labels : (n,) int32 ndarray
            New cluster of each row of this part.
        extra : dict
            Diagnostics of the draw.
        """
        reply = Reply(
            int(np.count_nonzero(labels != self.labels)),
            moved_sums(self.data, self.labels, labels, n_clusters, self.scale),
            [(self.first_row, self.data.n_rows, extra)],
        )
        self.labels, self.K = labels, n_clusters
        return reply

    def divide(self, division: Division | None, relabelled: Labels, target: Labels, n_clusters: int) -> None:
        """Make splits and merges, see `expfam.samplers.states.divisions`.

        Parameters
        ----------
        division, relabelled, target
            As in `expfam.samplers.states.divisions.divided_labels`.
        n_clusters : int
            Number of clusters afterwards.
        """
        self.labels = divided_labels(self.data, self.labels, division, relabelled, target)
        self.K = n_clusters

    def borrow(self, sizes: Sizes, bounds: Bounds, own: tuple[Cuts, Any, Any]) -> None:
        """Take rows of other parts that complete the last segment of sums.

        See `expfam.samplers.shards.soft`.
        """
        self.soft = SoftPart(sizes, bounds, *own)

    def expect(self, parameters: Parameters, n_threads: int | None) -> SoftReply:
        """Find the most probable component of each row; return soft sums and what changed."""
        labels, sums = soft_labels(self.data, self.soft, parameters, n_threads)
        n_moved = int(np.count_nonzero(labels != self.labels))
        self.labels = labels
        return SoftReply(n_moved, sums, self.first_rows())

    def keep(self) -> None:
        """Keep the present labels beside those of later sweeps."""
        self.kept = self.labels

    def take_kept(self) -> LabelSums:
        """Take the labels that were kept last; return their sums."""
        self.labels = self.kept
        return self.sums()

    # ---- questions ---------------------------------------------------------------------------------------------------

    def sums(self) -> LabelSums:
        """Return the sums of the present labels, from all rows."""
        return label_sums(self.data, self.labels, self.K, self.scale)

    def weighted_sums(self, n_clusters: int, scale: Scale) -> LabelSums:
        """Return the sums of the present labels by weights of rows, see `weighted_label_sums`."""
        return weighted_label_sums(self.data, self.labels, n_clusters, scale)

    def expected(self, parameters: Parameters, n_threads: int | None) -> SoftSums:
        """Return the soft sums under the parameters."""
        return soft_labels(self.data, self.soft, parameters, n_threads)[1]

    def least_slice(self, log_pi: Floats, seed: int, step: int) -> Least:
        """Return the least log slice of the rows, see `expfam.samplers.states.sticks`."""
        return Least(log_slices(self.first_row, self.labels, log_pi, seed, step).min())

    def sides(self, division: Division) -> Sides:
        """Return the sums of a division of clusters."""
        return sides_of(self.data, self.labels, division, self.scale)

    def first_rows(self) -> Least:
        """Return the global number of the first row of each cluster: (K,) int64."""
        first = np.full(self.K, NO_ROW)
        used, row = np.unique(self.labels, return_index=True)
        first[used] = row + self.first_row
        return Least(first)

    def labels_now(self) -> npt.NDArray[np.int32]:
        """Return the labels of the rows."""
        return self.labels

    def labels_at(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """Return the labels of the rows with these global numbers that are here."""
        here = numbers[(numbers >= self.first_row) & (numbers < self.first_row + self.labels.size)]
        return self.labels[here - self.first_row]

    def rows(self, numbers: npt.NDArray[np.int64]) -> tuple[Any, Any]:
        """Return the rows with these global numbers that are here, and the places of the numbers."""
        here = np.flatnonzero((numbers >= self.first_row) & (numbers < self.first_row + self.X.shape[0]))
        return self.X[numbers[here] - self.first_row], here

    def weights_of(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return the weights of the rows with these global numbers that are here."""
        here = numbers[(numbers >= self.first_row) & (numbers < self.first_row + self.X.shape[0])]
        return np.ones(here.size) if self.weight is None else self.weight[here - self.first_row]

    # ---- checkpoints -------------------------------------------------------------------------------------------------

    def write_labels(self, folder: str) -> list[Any]:
        """Write the labels, and those that are kept; return an entry of a listing."""
        both = [self.labels, self.kept] if hasattr(self, "kept") else [self.labels]
        return write_rows(folder, self.first_row, np.array(both, dtype=np.int32))

    def read_labels(self, folder: str, listing: list[Any], n_clusters: int, scale: Scale) -> LabelSums:
        """Take the labels that parts of any bounds wrote into a folder; return their sums.

        Parameters
        ----------
        folder : str
        listing : list
            One entry of `write_rows` for each file.
        n_clusters, scale
            As in `begin`.
        """
        labels = read_rows(folder, listing, self.first_row, self.data.n_rows, n_clusters)
        if len(labels) > 1:
            self.kept = labels[1].copy()
        return self.set_labels(n_clusters, scale, labels[0])

    # ---- loss and resumption -----------------------------------------------------------------------------------------

    def saved(self) -> dict[str, Any]:
        """Return all that the rows do not hold."""
        return {"family": self.data.family} | {name: getattr(self, name) for name in _SAVED if hasattr(self, name)}

    def restore(self, saved: dict[str, Any]) -> None:
        """Bring a new shard of the same rows to where another one was saved."""
        if "family" not in saved:
            raise CapabilityError("what was saved of a part holds no family")
        self.bind(saved["family"])
        for name in _SAVED:
            if name in saved:
                setattr(self, name, saved[name])

"""Record of a run: numbers of each step, and some of its partitions.

The numbers are the fields of Info. The leading steps may be a warm-up: the columns contain them, but no estimate of the
posterior counts them. Partitions are kept at regular intervals; when there are too many, every second one is dropped,
so they stay evenly spaced over the run. Estimates from partitions, for example the point estimate, compare pairs of
partitions by sparse contingency tables: O(M^2 N) time for M kept partitions, and no N x N memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from expfam.amounts import counted
from expfam.errors import ArchiveError
from expfam.frames.new_frames import new_frame
from expfam.model.partitions import by_first_appearance, compact_labels, contingency
from expfam.params import Real, check_value
from expfam.protocols import Info
from expfam.structures.ground.stored import integers, numbers

_COLUMNS = {"step": np.int64, "objective": np.float64, "n_clusters": np.int64, "proposed": np.int64}
_COLUMNS |= {"accepted": np.int64, "seconds": np.float64}


class WarmedColumns:
    """Base class of traces: columns of numbers whose leading steps are a warm-up.

    Subclasses have `column`, `names`, `n_warmup` and a length.
    """

    n_warmup: int

    column: Any  # methods of the subclasses
    names: Any

    if TYPE_CHECKING:

        def __len__(self) -> int: ...

    def counted(self, name: str, *, n_warmup: int | None = None) -> np.ndarray:
        """Return one number of every step after the warm-up.

        Parameters
        ----------
        name : str
            Name of a column, see `column`.
        n_warmup : int, optional
            Number of leading steps to leave out, in place of the trace's own warm-up.

        Returns
        -------
        (T,) int64 or float64 ndarray
            Empty if the run ended in its warm-up.
        """
        return self.column(name)[_as_warmup(self.n_warmup if n_warmup is None else n_warmup) :]

    def to_frame(self, *, backend: Literal["pandas", "polars", "pyarrow"] = "pandas") -> Any:
        """Return the numbers of all steps as a frame, one row a step.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}
            If it is not installed, another one of them is used.

        Returns
        -------
        pandas.DataFrame, polars.DataFrame or pyarrow.Table
            A column of booleans, "is_warmup", says which steps were the warm-up.

        Examples
        --------
        >>> from expfam import Mixture
        >>> mixture = Mixture("poisson", 2, n_steps=3, n_warmup=2, random_state=0).fit([[0], [1], [40], [44]])
        >>> mixture.trace_.to_frame()["is_warmup"].tolist()
        [True, True, False, False, False]
        """
        columns = {name: self.column(name) for name in self.names()}
        columns["is_warmup"] = np.arange(len(self)) < self.n_warmup
        return new_frame(columns, backend=backend)

    def n_clusters_interval(self, probability: float = 0.9, *, n_warmup: int | None = None) -> tuple[int, int]:
        """Compute the shortest credible interval of the number of clusters.

        Parameters
        ----------
        probability : float in (0, 1]
            Least share of the steps after the warm-up whose number of clusters lies in the interval.
        n_warmup : int, optional
            Number of leading steps to leave out, in place of the trace's own warm-up.

        Returns
        -------
        (low, high) : int
            Both included.

        Raises
        ------
        ValueError
            The run has no step after the warm-up.
        """
        check_value("probability", probability, (Real(0, 1, ends="(]"),))
        values = self.counted("n_clusters", n_warmup=n_warmup)
        if values.size == 0:
            n_warmup = self.n_warmup if n_warmup is None else n_warmup
            raise ValueError(
                f"no steps are left: the trace has {len(self)}, and the warm-up takes {n_warmup}; make more steps"
            )
        low, high = shortest_interval(values, probability)
        return int(low), int(high)


def shortest_interval(values: npt.ArrayLike, probability: float) -> tuple[Any, Any]:
    """Return the ends of the shortest interval that holds a share of the values.

    Parameters
    ----------
    values : (M,) array_like
    probability : float in (0, 1]

    Returns
    -------
    (low, high)
        Two of the values; of several shortest intervals the lowest.

    Examples
    --------
    >>> from expfam.samplers.chain.trace import shortest_interval
    >>> low, high = shortest_interval([3, 4, 4, 9], 0.75)
    >>> int(low), int(high)
    (3, 4)
    """
    check_value("probability", probability, (Real(0, 1, ends="(]"),))
    ordered = np.sort(np.asarray(values))
    inside = int(np.ceil(probability * ordered.size - 1e-9))
    widths = ordered[inside - 1 :] - ordered[: ordered.size - inside + 1]
    start = int(np.argmin(widths))
    return ordered[start], ordered[start + inside - 1]


class Trace(WarmedColumns):
    """Numbers of each step of a run, and kept partitions.

    Parameters
    ----------
    keep_every : int, optional
        Number of steps from one kept partition to the next; None keeps no partitions.
    max_kept : int
        Maximal number M of kept partitions; each uses N, 2 N or 4 N bytes, as its number of clusters needs. When one
        more is due, every second one is dropped, and from then on partitions are kept half as often. So they are always
        evenly spaced.
    n_warmup : int
        Number of leading steps that are a warm-up: no partition is kept in them, and no summary counts them.

    Attributes
    ----------
    n_warmup : int
        Number of steps of the warm-up, including those that are not made yet. If you set it, partitions that were kept
        in the new warm-up are dropped.
    interrupted : bool
        Whether Ctrl-C stopped the run.
    kept_steps : (M,) int64 ndarray
        Step of each kept partition.
    partitions : (M, N) ndarray of uint8, uint16 or uint32
        Kept partitions as labels 0..K-1.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from expfam.protocols import Info
    >>> from expfam.samplers.chain.trace import Trace
    >>> trace = Trace(keep_every=1)
    >>> for step, labels in enumerate([[0, 0, 1], [0, 1, 1], [5, 5, 2]]):
    ...     trace.append(Info(step + 1, -float(step), 2, 3, 1, 0.1, {}), SimpleNamespace(labels=labels))
    >>> trace.column("objective")
    array([-0., -1., -2.])
    >>> trace.point_partition()
    array([0, 0, 1], dtype=int32)
    """

    def __init__(self, *, keep_every: int | None = None, max_kept: int = 100, n_warmup: int = 0) -> None:
        if max_kept != int(max_kept) or max_kept < 2:
            raise ValueError(f"max_kept must be an integer of at least 2; got {max_kept!r}")
        self.max_kept = int(max_kept)
        self.interrupted = False
        self._rows: list[tuple[Any, ...]] = []
        self._extra: dict[str, dict[int, Any]] = {}
        self._kept: list[npt.NDArray[np.unsignedinteger]] = []
        self._kept_rows: list[int] = []
        self.keep_every, self.n_warmup = keep_every, n_warmup

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self):
        return f"Trace({counted(len(self), 'step')}, {counted(self.n_kept, 'partition')} kept)"

    @property
    def keep_every(self) -> int | None:
        """Number of steps between kept partitions; setting it counts from the present step."""
        return self._keep_every

    @keep_every.setter
    def keep_every(self, value: int | None) -> None:
        if value is not None and (value != int(value) or value < 1):
            raise ValueError(f"keep_every must be None or an integer of at least 1; got {value!r}")
        self._keep_every = None if value is None else int(value)
        self._stride, self._origin = self._keep_every, len(self)

    @property
    def n_warmup(self) -> int:  # type: ignore[override]
        """Number of steps of the warm-up; setting it drops partitions that were kept in them."""
        return self._n_warmup

    @n_warmup.setter
    def n_warmup(self, value: int) -> None:
        self._n_warmup = _as_warmup(value)
        later = [m for m, row in enumerate(self._kept_rows) if row >= self._n_warmup]
        self._kept, self._kept_rows = [self._kept[m] for m in later], [self._kept_rows[m] for m in later]

    @property
    def n_kept(self) -> int:
        """Number of kept partitions."""
        return len(self._kept)

    @property
    def kept_steps(self) -> npt.NDArray[np.int64]:
        """Step of each kept partition: (M,) int64."""
        return self.column("step")[self._kept_rows]

    @property
    def partitions(self) -> npt.NDArray[np.unsignedinteger]:
        """Copy of the kept partitions: (M, N) uint8, uint16 or uint32, as the most clusters need."""
        return np.array(self._kept) if self._kept else np.zeros((0, 0), dtype=np.uint8)

    def append(self, info: Info, state: Any) -> None:
        """Record a step.

        Parameters
        ----------
        info : Info
            Each number in ``info.extra`` becomes a column.
        state : State
            Only its `labels` are read, and only when a partition is due.
        """
        row = len(self._rows)
        self._rows.append(tuple(info[:6]))
        for name, value in info.extra.items():
            if isinstance(value, (int, float, np.integer, np.floating)):
                self._extra.setdefault(name, {})[row] = float(value)
        n_since = row + 1 - max(self._origin, self._n_warmup)
        if self._keep_every is not None and n_since > 0 and n_since % self._stride == 0:
            self._keep(row, _narrow(compact_labels(state.labels)))

    def _keep(self, row, labels):
        if self._kept and labels.shape != self._kept[0].shape:
            raise ValueError(
                f"labels of {counted(labels.shape[0], 'datum', 'data')} cannot join those of {self._kept[0].shape[0]}"
            )
        if len(self._kept) == self.max_kept:
            # chosen from the newest backwards, so that the partition that is now due fits the wider spacing
            chosen = range(len(self._kept) % 2, len(self._kept), 2)
            self._kept = [self._kept[m] for m in chosen]
            self._kept_rows = [self._kept_rows[m] for m in chosen]
            self._stride *= 2
            self._origin = row + 1
        self._kept.append(labels)
        self._kept_rows.append(row)

    def names(self) -> list[str]:
        """Return the names of the columns."""
        return [*_COLUMNS, *self._extra]

    def column(self, name: str) -> np.ndarray:
        """Return one number of every step.

        Parameters
        ----------
        name : str
            "step", "objective", "n_clusters", "proposed", "accepted", "seconds", or a name from `extra`.

        Returns
        -------
        (len(trace),) int64 or float64 ndarray
            NaN for steps whose `extra` does not have the name.
        """
        if name in _COLUMNS:
            return np.array([row[Info._fields.index(name)] for row in self._rows], dtype=_COLUMNS[name])
        if name not in self._extra:
            raise KeyError(f"no column {name!r}; there are {[*_COLUMNS, *self._extra]}")
        values = np.full(len(self), np.nan)
        values[list(self._extra[name])] = list(self._extra[name].values())
        return values

    # ---- estimates from the partitions -------------------------------------------------------------------------------

    def point_partition(self, loss: Literal["vi", "binder"] = "vi") -> npt.NDArray[np.int32]:
        """Return the kept partition that is on average nearest to the others.

        Parameters
        ----------
        loss : {"vi", "binder"}
            Variation of information in nats, or the share of ordered pairs of data on which two partitions disagree.

        Returns
        -------
        (N,) int32 ndarray
            Labels numbered by first appearance; of several partitions that are equally near the earliest one.

        Notes
        -----
        The result minimises the Monte-Carlo estimate of the posterior expected loss: Wade & Ghahramani 2018, "Bayesian
        cluster analysis", but only over the kept partitions.
        """
        best = int(np.argmin(self.mean_losses(loss)))
        return by_first_appearance(self._kept[best])[1]

    def mean_losses(self, loss: Literal["vi", "binder"] = "vi") -> npt.NDArray[np.float64]:
        """Compute the mean loss from each kept partition to all of them: (M,) float64.

        The mean includes the loss of 0 to the partition itself. See `point_partition` for the losses.
        """
        if loss not in _LOSSES:
            raise ValueError(f"loss must be one of {list(_LOSSES)}; got {loss!r}")
        self._require_kept()
        total = np.zeros(self.n_kept)
        for a in range(self.n_kept):
            for b in range(a):
                value = _LOSSES[loss](self._kept[a], self._kept[b])
                total[[a, b]] += value
        return total / self.n_kept

    def coclustering(self, pairs: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Compute in which share of the kept partitions the data of each pair share a cluster.

        Parameters
        ----------
        pairs : (P, 2) array_like of int

        Returns
        -------
        (P,) float64 ndarray
        """
        self._require_kept()
        pairs = np.asarray(pairs, dtype=np.intp)
        if pairs.ndim != 2 or pairs.shape[1] != 2:
            raise ValueError(f"pairs must have shape (P, 2); got {pairs.shape}")
        together = np.zeros(pairs.shape[0])
        for labels in self._kept:
            together += labels[pairs[:, 0]] == labels[pairs[:, 1]]
        return together / self.n_kept

    def _require_kept(self):
        if not self._kept:
            raise ValueError("no partition was kept: set keep_every before the run, and make steps after the warm-up")

    # ---- storage -----------------------------------------------------------------------------------------------------

    def to_arrays(self) -> dict[str, Any]:
        """Return the trace as a dict of arrays; the columns of `extra` are a dict within it."""
        settings = [self._keep_every or 0, self._stride or 0, self._origin, self.max_kept, int(self.interrupted)]
        return {
            **{name: self.column(name) for name in _COLUMNS},
            "extra": {name: self.column(name) for name in self._extra},
            "partitions": self.partitions,
            "kept_rows": np.array(self._kept_rows, dtype=np.int64),
            "settings": np.array(settings, dtype=np.int64),
            "n_warmup": np.array(self._n_warmup, dtype=np.int64),
        }

    def from_arrays(self, arrays: Mapping[str, Any]) -> None:
        """Restore the trace from the arrays of `to_arrays`.

        It then continues as if it had not been stored. Arrays of older versions have no warm-up, which is then 0.
        """
        T = len(arrays["step"])
        columns = [
            integers(arrays, name, (T,)).tolist()
            if dtype is np.int64
            else numbers(arrays, name, (T,), finite=False).tolist()
            for name, dtype in _COLUMNS.items()
        ]
        extra = {
            name: {row: value for row, value in enumerate(_column(values, T)) if value == value}
            for name, values in arrays.get("extra", {}).items()
        }
        rows = integers(arrays, "kept_rows", (None,), 0, max(T, 1)).tolist()
        kept = [_narrow(labels) for labels in integers(arrays, "partitions", (len(rows), None), 0, 2**31 - 1)]
        keep_every, stride, origin, most, interrupted = integers(arrays, "settings", (5,)).tolist()
        if stride < keep_every or most < 2:
            raise ArchiveError(f"the trace has the settings {arrays['settings'].tolist()}: the file was altered")
        self._rows, self._extra, self._kept, self._kept_rows = list(zip(*columns)), extra, kept, rows
        self._origin, self.max_kept = origin, most
        self._keep_every, self._stride, self.interrupted = keep_every or None, stride or None, bool(interrupted)
        self._n_warmup = int(integers({"n_warmup": 0} | dict(arrays), "n_warmup", (), 0))


def _narrow(labels):
    """Return a copy of labels in the least unsigned type of 1, 2 or 4 bytes that holds them."""
    return labels.astype(np.min_scalar_type(int(labels.max(initial=0))))


def _as_warmup(value):
    if isinstance(value, bool) or value != int(value) or value < 0:
        raise ValueError(f"n_warmup must be a non-negative integer; got {value!r}")
    return int(value)


def _column(values, T):
    """Return the values of an extra of T steps as a list; refuse another length."""
    values = np.asarray(values)
    if values.shape != (T,):
        raise ArchiveError(
            f"the trace has {counted(T, 'step')} and an extra of shape {values.shape}: the file was altered"
        )
    return values.tolist()


def _variation_of_information(a, b):
    """Return the variation of information in nats, as a difference of entropies.

    `expfam.variation_of_information` sums more exactly, but takes longer for each of M**2 pairs of partitions.
    """
    counts = contingency(a, b)
    n_a, n_b, n_ab = counts.n_a, counts.n_b, counts.n_ab
    value = sum(float(m @ np.log(m)) for m in (n_a, n_b)) - 2.0 * float(n_ab @ np.log(n_ab))
    return max(value / a.size, 0.0)


def _binder(a, b):
    counts = contingency(a, b)
    n_a, n_b, n_ab = (np.asarray(m, dtype=np.float64) for m in (counts.n_a, counts.n_b, counts.n_ab))
    return float(n_a @ n_a + n_b @ n_b - 2.0 * (n_ab @ n_ab)) / a.size**2


_LOSSES = {"vi": _variation_of_information, "binder": _binder}

"""Schedules of variational inference: the batches of a pass, each followed by an update.

A schedule is frozen settings. Its batches depend only on the number of rows, the seed and the number of the pass.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from expfam.amounts import counted
from expfam.params import NON_NEGATIVE, POSITIVE, Integer, Real, Settings, check_settings, refuse_unused
from expfam.structures.ground.rng import generator

_MOST_BATCHES = 20
_BATCH_ROWS = 200  # least number of rows of a batch per cluster


class Schedule(Settings):
    """Base of the schedules: settings as constructor keywords.

    `check` compares the settings with the data.
    """

    def check(self, n_rows: int) -> None:
        """Raise ValueError for settings out of range, and for those that these data do not allow."""
        check_settings(self)

    def n_batches_of(self, n_rows: int) -> int:
        """Return the number of batches of a pass."""
        return 1


class Full(Schedule):
    """Update the parameters once after each pass over all data; the bound never falls.

    Examples
    --------
    >>> from expfam.samplers import Full
    >>> Full()
    Full()
    """


class Memoized(Schedule):
    """An exact update after each batch: the new sums of the batch replace its old ones.

    Parameters
    ----------
    n_batches : int
        Number of batches, at most one for each row. The rows are divided at random, once for a run; each pass has a new
        order of the batches. Chunks that are learned one by one are batches themselves, and ignore this number.
    run_length : int
        Number of neighbouring rows that stay in one batch. Some thousands suit data on a disk: then a batch is read in
        long pieces.

    Examples
    --------
    >>> from expfam.samplers import Memoized
    >>> Memoized(10)
    Memoized(n_batches=10, run_length=1)

    Notes
    -----
    Hughes and Sudderth 2013, "Memoized online variational inference for Dirichlet process mixture models"; Neal and
    Hinton 1998 for the incremental view. The bound never falls, from the labels of the start on.
    """

    _constraints: ClassVar = {"n_batches": Integer(1), "run_length": Integer(1)}

    def __init__(self, n_batches: int = 20, *, run_length: int = 1) -> None:
        self.n_batches, self.run_length = n_batches, run_length

    def n_batches_of(self, n_rows: int) -> int:
        """Return the number of batches of a pass: at most one for each run of rows."""
        return min(int(self.n_batches), -(-n_rows // int(self.run_length)))

    def partition(self, n_rows: int, seed: int) -> list[npt.NDArray[np.int64]]:
        """Return the rows of each batch, ascending, the same for every pass: a list of (m,) arrays.

        Parameters
        ----------
        n_rows : int
            Number of rows, or of groups where groups are not divided.
        seed : int
            Seed of the run, 64 bits.
        """
        return _divided(n_rows, self.n_batches_of(n_rows), self.run_length, generator(seed, "order"))

    def order(self, n_rows: int, seed: int, step: int) -> npt.NDArray[np.int64]:
        """Return the order of the batches in pass `step`: (B,) int64.

        Parameters
        ----------
        n_rows, seed
            As of `partition`.
        step : int
            Number of the pass.
        """
        return generator(seed, "order", unit=1, step=step).permutation(self.n_batches_of(n_rows))


class Stochastic(Schedule):
    """Natural-gradient steps from random batches, with falling step sizes; the bound is noisy.

    A pass draws its batches without replacement.

    Parameters
    ----------
    batch_size : int
        Rows of a batch; fewer rows than this are one batch. Chunks that are learned one by one are batches themselves,
        and ignore this number.
    kappa : float in (0.5, 1]
    delay : float
        Step t, from 1, has size (t + delay) ** -kappa. With a delay of 0 the first step forgets the start.
    n_total : float, optional
        Number of rows (or their weight) of all chunks together; if not given, of the chunks learned so far. A fit of
        data in memory knows their number and refuses `n_total`.
    run_length : int
        Number of neighbouring rows that stay in one batch, as in `Memoized`.

    Examples
    --------
    >>> from expfam.samplers import Stochastic
    >>> Stochastic(256).step_size(1).round(3)
    np.float64(0.66)

    Notes
    -----
    Hoffman, Blei, Wang and Paisley 2013, "Stochastic variational inference".
    """

    _constraints: ClassVar = {
        "batch_size": Integer(1),
        "kappa": Real(0.5, 1, "(]"),
        "delay": NON_NEGATIVE,
        "n_total": (POSITIVE, None),
        "run_length": Integer(1),
    }

    def __init__(
        self,
        batch_size: int = 1024,
        kappa: float = 0.6,
        delay: float = 1.0,
        *,
        n_total: float | None = None,
        run_length: int = 1,
    ) -> None:
        self.batch_size, self.kappa, self.delay = batch_size, kappa, delay
        self.n_total, self.run_length = n_total, run_length

    def check(self, n_rows: int) -> None:
        """Raise for settings that these data do not allow; `n_total` is for chunks alone."""
        super().check(n_rows)
        refuse_unused(self, ["n_total"], why=f"a fit of {counted(n_rows, 'row')} at once", remedy="learn chunks")

    def n_batches_of(self, n_rows: int) -> int:
        """Return the number of batches of a pass; the last one may be smaller."""
        return min(-(-n_rows // int(self.batch_size)), -(-n_rows // int(self.run_length)))

    def step_size(self, t: int) -> float:
        """Return the size of step `t`, from 1."""
        return np.power(t + self.delay, -self.kappa)

    def batches(self, n_rows: int, seed: int, step: int) -> list[npt.NDArray[np.int64]]:
        """Return the rows of each batch of pass `step`, ascending: a list of (m,) int64 arrays.

        Parameters
        ----------
        n_rows, seed
            As of `Memoized.partition`.
        step : int
            Number of the pass. Each pass divides the rows anew.
        """
        rng = generator(seed, "order", unit=2, step=step)
        return _divided(n_rows, self.n_batches_of(n_rows), self.run_length, rng)


def automatic_schedule(n_clusters: int, n_rows: int, n_units: int) -> Full | Memoized:
    """Return Memoized for many rows, or Full where they are one batch.

    There are up to 20 batches of at least 200 rows per cluster.

    Parameters
    ----------
    n_clusters, n_rows : int
    n_units : int
        Number of what the batches divide: rows, or groups that must stay whole.
    """
    n_batches = min(_MOST_BATCHES, n_rows // (_BATCH_ROWS * n_clusters), n_units)
    return Memoized(n_batches) if n_batches > 1 else Full()


def _divided(n_rows, n_batches, run_length, rng):
    """Divide runs of rows among batches at random; return ascending int64 arrays of rows."""
    if n_batches == 1:
        return [np.arange(n_rows)]
    n_runs = -(-n_rows // run_length)
    shuffled = rng.permutation(n_runs)
    chosen = [np.sort(shuffled[n_runs * b // n_batches : n_runs * (b + 1) // n_batches]) for b in range(n_batches)]
    if run_length == 1:
        return chosen
    rows = [(runs[:, None] * run_length + np.arange(run_length)).ravel() for runs in chosen]
    return [part[part < n_rows] for part in rows]

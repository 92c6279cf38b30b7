"""Schedules of variational inference: which data a pass visits between two updates of the parameters.

A schedule is frozen settings; the batches of a pass follow from the number of rows, the seed and the pass alone.
"""

import numpy as np

from expfam.params import Settings, refuse_unused
from expfam.structures.ground.rng import generator


class Schedule(Settings):
    """Base of the schedules: settings as constructor keywords, checked against the data by `check`."""

    def check_settings(self):
        """Raise ValueError for settings out of their ranges."""

    def check(self, n_rows):
        """Raise ValueError for settings that these data do not allow."""
        self.check_settings()

    def n_batches_of(self, n_rows):
        """Number of batches of a pass."""
        return 1


class Full(Schedule):
    """One update of the parameters after each pass over all data; the bound never falls.

    Examples
    --------
    >>> from expfam.samplers import Full
    >>> Full()
    Full()
    """


class Memoized(Schedule):
    """An update after each batch, exact: what a batch contributed last time is remembered and replaced.

    Parameters
    ----------
    n_batches : int
        The data are divided at random, once for a run, and visited in a new order at each pass; at most one batch a
        row. Chunks that are learned one by one are batches themselves, whatever this says.
    run_length : int
        Neighbouring rows that stay in one batch. For data on a disk take some thousands, for a batch to be read in
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

    def __init__(self, n_batches=20, *, run_length=1):
        self.n_batches, self.run_length = n_batches, run_length

    def check_settings(self):
        """The number of batches and the length of runs must be positive integers."""
        _check_count("Memoized", "n_batches", self.n_batches)
        _check_count("Memoized", "run_length", self.run_length)

    def n_batches_of(self, n_rows):
        """At most one for each run of rows."""
        return min(int(self.n_batches), -(-n_rows // int(self.run_length)))

    def partition(self, n_rows, seed):
        """Rows of each batch, ascending, the same for every pass: list of (m,) int64 arrays."""
        return _divided(n_rows, self.n_batches_of(n_rows), self.run_length, generator(seed, "order"))

    def order(self, n_rows, seed, step):
        """Order in which a pass visits the batches."""
        return generator(seed, "order", unit=1, step=step).permutation(self.n_batches_of(n_rows))


class Stochastic(Schedule):
    """Natural-gradient steps from batches drawn without replacement, with falling step sizes; the bound is noisy.

    Parameters
    ----------
    batch_size : int
        Rows of a batch; fewer rows than that are one batch. Chunks that are learned one by one are batches themselves,
        whatever this says.
    kappa : float in (0.5, 1]
    delay : float
        Step t, from 1, has size (t + delay) ** -kappa; with a delay of 0 the first one forgets the start.
    n_total : float, optional
        Rows (or their weight) that chunks stand for in all; if not given, those that have been seen so far. Data that
        are held stand for themselves, and `n_total` is refused for them.
    run_length : int
        Neighbouring rows that stay in one batch, as of `Memoized`.

    Examples
    --------
    >>> from expfam.samplers import Stochastic
    >>> Stochastic(256).step_size(1).round(3)
    np.float64(0.66)

    Notes
    -----
    Hoffman, Blei, Wang and Paisley 2013, "Stochastic variational inference".
    """

    def __init__(self, batch_size=1024, kappa=0.6, delay=1.0, *, n_total=None, run_length=1):
        self.batch_size, self.kappa, self.delay = batch_size, kappa, delay
        self.n_total, self.run_length = n_total, run_length

    def check(self, n_rows):
        """Also no number of rows in all: these are."""
        super().check(n_rows)
        refuse_unused(self, ["n_total"], why=f"a fit of {n_rows} rows at once", remedy="learn chunks")

    def check_settings(self):
        """Sizes and exponents in their ranges."""
        _check_count("Stochastic", "batch_size", self.batch_size)
        _check_count("Stochastic", "run_length", self.run_length)
        if self.n_total is not None and not 0 < self.n_total < np.inf:
            raise ValueError(f"Stochastic: n_total must be positive and finite, or None; got {self.n_total!r}")
        if not 0.5 < self.kappa <= 1:
            raise ValueError(f"Stochastic: kappa must lie in (0.5, 1]; got {self.kappa!r}")
        if not 0 <= self.delay < np.inf:
            raise ValueError(f"Stochastic: delay must be finite and non-negative; got {self.delay!r}")

    def n_batches_of(self, n_rows):
        """Whole batches and what is left over."""
        return min(-(-n_rows // int(self.batch_size)), -(-n_rows // int(self.run_length)))

    def step_size(self, t):
        """Size of step `t`, from 1."""
        return np.power(t + self.delay, -self.kappa)

    def batches(self, n_rows, seed, step):
        """Rows of each batch of a pass, ascending: list of (m,) int64 arrays."""
        rng = generator(seed, "order", unit=2, step=step)
        return _divided(n_rows, self.n_batches_of(n_rows), self.run_length, rng)


def _divided(n_rows, n_batches, run_length, rng):
    """Rows cut into runs and the runs dealt to batches at random: list of ascending int64 arrays."""
    if n_batches == 1:
        return [np.arange(n_rows)]
    n_runs = -(-n_rows // run_length)
    shuffled = rng.permutation(n_runs)
    chosen = [np.sort(shuffled[n_runs * b // n_batches : n_runs * (b + 1) // n_batches]) for b in range(n_batches)]
    if run_length == 1:
        return chosen
    rows = [(runs[:, None] * run_length + np.arange(run_length)).ravel() for runs in chosen]
    return [part[part < n_rows] for part in rows]


def _check_count(owner, name, value):
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise ValueError(f"{owner}: {name} must be an integer of at least 1; got {value!r}")


__all__ = ["Full", "Memoized", "Schedule", "Stochastic"]

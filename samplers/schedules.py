"""Schedules of variational inference: which data a pass visits between two updates of the parameters.

A schedule is frozen settings; the batches of a pass follow from the number of rows, the seed and the pass alone.
"""

import numpy as np

from expfam.samplers.settings import Settings
from expfam.structures._rng import generator


class Schedule(Settings):
    """Base of the schedules: settings as constructor keywords, checked against the data by `check`."""

    def check(self, n_rows):
        """Raise ValueError for settings that these data do not allow."""

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
        row.

    Examples
    --------
    >>> from expfam.samplers import Memoized
    >>> Memoized(10)
    Memoized(n_batches=10)

    Notes
    -----
    Hughes and Sudderth 2013, "Memoized online variational inference for Dirichlet process mixture models"; Neal and
    Hinton 1998 for the incremental view. The bound never falls, from the labels of the start on.
    """

    def __init__(self, n_batches=20):
        self.n_batches = n_batches

    def check(self, n_rows):
        """The number of batches must be a positive integer."""
        _check_count("Memoized", "n_batches", self.n_batches)

    def n_batches_of(self, n_rows):
        """At most one for each row."""
        return min(int(self.n_batches), n_rows)

    def partition(self, n_rows, seed):
        """Rows of each batch, ascending, the same for every pass: list of (m,) int64 arrays."""
        n = self.n_batches_of(n_rows)
        if n == 1:
            return [np.arange(n_rows)]
        shuffled = generator(seed, "order").permutation(n_rows)
        return [np.sort(shuffled[n_rows * b // n : n_rows * (b + 1) // n]) for b in range(n)]

    def order(self, n_rows, seed, step):
        """Order in which a pass visits the batches."""
        return generator(seed, "order", unit=1, step=step).permutation(self.n_batches_of(n_rows))


class Stochastic(Schedule):
    """Natural-gradient steps from batches drawn without replacement, with falling step sizes; the bound is noisy.

    Parameters
    ----------
    batch_size : int
        Rows of a batch, at most N.
    kappa : float in (0.5, 1]
    delay : float
        Step t, from 1, has size (t + delay) ** -kappa; with a delay of 0 the first one forgets the start.

    Examples
    --------
    >>> from expfam.samplers import Stochastic
    >>> Stochastic(256).step_size(1).round(3)
    np.float64(0.66)

    Notes
    -----
    Hoffman, Blei, Wang and Paisley 2013, "Stochastic variational inference".
    """

    def __init__(self, batch_size=1024, kappa=0.6, delay=1.0):
        self.batch_size, self.kappa, self.delay = batch_size, kappa, delay

    def check(self, n_rows):
        """Sizes and exponents in their ranges; a batch not larger than the data."""
        _check_count("Stochastic", "batch_size", self.batch_size)
        if self.batch_size > n_rows:
            raise ValueError(f"Stochastic: batch_size must be at most the {n_rows} rows; got {self.batch_size}")
        if not 0.5 < self.kappa <= 1:
            raise ValueError(f"Stochastic: kappa must lie in (0.5, 1]; got {self.kappa!r}")
        if not 0 <= self.delay < np.inf:
            raise ValueError(f"Stochastic: delay must be finite and non-negative; got {self.delay!r}")

    def n_batches_of(self, n_rows):
        """Whole batches and what is left over."""
        return -(-n_rows // int(self.batch_size))

    def step_size(self, t):
        """Size of step `t`, from 1."""
        return np.power(t + self.delay, -self.kappa)

    def batches(self, n_rows, seed, step):
        """Rows of each batch of a pass, ascending: list of (m,) int64 arrays."""
        n = self.n_batches_of(n_rows)
        if n == 1:
            return [np.arange(n_rows)]
        shuffled = generator(seed, "order", unit=2, step=step).permutation(n_rows)
        return [np.sort(shuffled[n_rows * b // n : n_rows * (b + 1) // n]) for b in range(n)]


def _check_count(owner, name, value):
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise ValueError(f"{owner}: {name} must be an integer of at least 1; got {value!r}")


__all__ = ["Full", "Memoized", "Schedule", "Stochastic"]

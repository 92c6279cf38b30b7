"""Anchor laws: which two data a split-merge move starts from.

A law sees the data and never the labels. So a pair has the same probability at both ends of a move, and this
probability cancels from the acceptance ratio: any law is allowed. Near pairs are worth merging, far pairs are worth
splitting. Pairs are drawn in batches, O(1) each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from expfam.params import Integer, PartSettings
from expfam.samplers.geometry.hash_tables import HashTables, warn_of_large_buckets
from expfam.structures.hashing.lsh import LshTables

if TYPE_CHECKING:
    from expfam.model.data import Dataset
    from expfam.model.mixture import MixtureModel
    from expfam.protocols import BoundAnchors

_TRIES = 4  # of a far pair: the second datum may fall into the bucket of the first


class Anchors(PartSettings):
    """Base of the anchor laws: frozen settings; `bind` makes the object that works in a run.

    That object has two methods. `draw_pairs(size, rng)` returns (size, 2) intp numbers of data, with (-1, -1) for no
    move. `refresh(epoch)` renews what is random about the law, as a function of the epoch, the data and the seed alone.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.samplers import Anchors, SplitMerge
    >>> class Next(Anchors):
    ...     def bind(self, data, *, seed):
    ...         self.n_rows = data.n_rows
    ...         return self
    ...     def refresh(self, epoch):
    ...         pass
    ...     def draw_pairs(self, size, rng):
    ...         first = rng.integers(self.n_rows, size=size)
    ...         return np.column_stack([first, (first + 1) % self.n_rows])
    >>> kernel = SplitMerge(anchors=Next())
    """

    api_version = 1
    kind = "anchors"

    def bind(self, data: Dataset, *, seed: int) -> BoundAnchors:
        """Return the working object for one data set.

        Parameters
        ----------
        data : Dataset
        seed : int
            Seed of the chain, 64 bits. What is random about the law follows from it and from the epoch.

        Returns
        -------
        BoundAnchors
            Object with the methods `draw_pairs` and `refresh`.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement bind()")


class UniformAnchors(Anchors):
    """Each pair of different data is as probable as any other.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, Poisson
    >>> from expfam.samplers.split_merge.anchors import UniformAnchors
    >>> law = UniformAnchors().bind(Dataset([[1], [2], [5]], Poisson()), seed=0)
    >>> law.draw_pairs(4, np.random.default_rng(1)).shape
    (4, 2)
    """

    def bind(self, data: Dataset, *, seed: int) -> BoundAnchors:
        """Return the working object for one data set."""
        return _Uniform(data.n_rows)


class HashedAnchors(Anchors):
    """Base of the laws over hash tables of the data; its settings are those of `HashTables`."""

    n_bits: int | Literal["auto"]
    n_tables: int
    method: Literal["auto", "sign", "minhash"]

    _constraints: ClassVar = HashTables._constraints

    def tables(self) -> HashTables:
        """Return the settings of the hash tables."""
        return HashTables(n_bits=self.n_bits, n_tables=self.n_tables, method=self.method)

    def check(self, model: MixtureModel, data: Dataset) -> None:
        """Raise an error for settings out of range, and for MinHash of data that may be negative."""
        super().check(model, data)
        self.tables().check(data)

    def memory_per_row(self, data: Dataset) -> int:
        """Return the bytes per row of the tables."""
        return self.tables().memory_per_row(data)


class NearAnchors(HashedAnchors):
    """A uniform datum and another datum of its bucket, in one of several hash tables.

    Parameters
    ----------
    n_candidates : int
        Largest number of candidates from the datum's buckets, of which the most similar one is chosen. The number is a
        random power of two up to this; 1 is three times as probable as any other. Pieces of one cluster need near
        pairs, and neighbouring clusters need pairs that are less near.
    n_bits, n_tables, method
        See `HashTables`.
    n_threads : int or None
        Threads that make the tables.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, Poisson
    >>> from expfam.samplers.split_merge.anchors import NearAnchors
    >>> X = np.repeat([[9, 0], [0, 9]], 3, axis=0)
    >>> law = NearAnchors(n_tables=3).bind(Dataset(X, Poisson()), seed=0)
    >>> pairs = law.draw_pairs(5, np.random.default_rng(1))
    >>> (X[pairs[:, 0]] == X[pairs[:, 1]]).all()
    np.True_

    Notes
    -----
    Locality-sensitive sampling: a table at random, a member of the bucket at random, with at most three tries for each
    table. Its exact law is `LshTables.lss_probability`; kernels never need it. With several candidates
    `LshTables.draw_nearest` compares them by all bits of the keys together: where there are many clusters, most members
    of a bucket belong to other clusters, and moves of their pairs are refused.
    """

    _constraints: ClassVar = {"n_candidates": Integer(1)}

    def __init__(
        self,
        *,
        n_candidates: int = 1,
        n_bits: int | Literal["auto"] = "auto",
        n_tables: int = 10,
        method: Literal["auto", "sign", "minhash"] = "auto",
        n_threads: int | None = None,
    ) -> None:
        self.n_candidates = n_candidates
        self.n_bits, self.n_tables, self.method, self.n_threads = n_bits, n_tables, method, n_threads

    def bind(self, data: Dataset, *, seed: int) -> BoundAnchors:
        """Return the working object for one data set."""
        return _Near(self.tables(), data, seed, self.n_threads, self.n_candidates)


class FarAnchors(HashedAnchors):
    """A uniform datum and another uniform datum of a different bucket in a random hash table.

    Parameters
    ----------
    n_bits, n_tables, method, n_threads
        See `NearAnchors`.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, Poisson
    >>> from expfam.samplers.split_merge.anchors import FarAnchors
    >>> X = np.repeat([[9, 0], [0, 9]], 3, axis=0)
    >>> law = FarAnchors(n_tables=3).bind(Dataset(X, Poisson()), seed=0)
    >>> pairs = law.draw_pairs(50, np.random.default_rng(1))
    >>> pairs = pairs[pairs[:, 0] >= 0]
    >>> (X[pairs[:, 0]] != X[pairs[:, 1]]).any(axis=1).all()
    np.True_
    """

    def __init__(
        self,
        *,
        n_bits: int | Literal["auto"] = "auto",
        n_tables: int = 10,
        method: Literal["auto", "sign", "minhash"] = "auto",
        n_threads: int | None = None,
    ) -> None:
        self.n_bits, self.n_tables, self.method, self.n_threads = n_bits, n_tables, method, n_threads

    def bind(self, data: Dataset, *, seed: int) -> BoundAnchors:
        """Return the working object for one data set."""
        return _Far(self.tables(), data, seed, self.n_threads)


class _Uniform:
    def __init__(self, n_rows):
        self.n_rows = n_rows

    def refresh(self, epoch):
        """Do nothing: the law has no random parts."""

    def draw_pairs(self, size, rng):
        if self.n_rows < 2:
            return np.full((size, 2), -1, dtype=np.intp)
        u, v = rng.integers(self.n_rows, size=size), rng.integers(self.n_rows - 1, size=size)
        return np.column_stack([u, v + (v >= u)])


class _Hashed:
    """A law over hash tables, which are made at first use in each epoch."""

    def __init__(self, tables, data, seed, n_threads):
        self.settings, self.data, self.seed, self.n_threads = tables, data, seed, n_threads
        self.epoch = 0
        self.made = None

    def refresh(self, epoch):
        if epoch != self.epoch:
            self.epoch, self.made = epoch, None

    def keys(self):
        return self.settings.keys(self.data, seed=self.seed, epoch=self.epoch, n_threads=self.n_threads)


class _Near(_Hashed):
    def __init__(self, tables, data, seed, n_threads, n_candidates):
        super().__init__(tables, data, seed, n_threads)
        self.n_scales = int(n_candidates).bit_length()
        self.compared = None

    def draw_pairs(self, size, rng):
        if self.made is None:
            keys = self.keys()
            self.made = LshTables(keys, n_threads=self.n_threads)
            self.compared = self.settings.compared(self.data, keys) if self.n_scales > 1 else None
            if self.settings.n_bits != "auto":
                warn_of_large_buckets(int(np.median(self.made.statistics()["largest"])), self.data.n_rows)
        u = rng.integers(self.data.n_rows, size=size)
        if self.n_scales == 1:
            v = self.made.draw_neighbours(u, rng)
        else:
            codes, by_bits = self.compared
            n = np.int64(1) << np.maximum(rng.integers(-2, self.n_scales, size=size), 0)
            v = self.made.draw_nearest(u, codes, n, rng, by_bits=by_bits)
        return np.where((v < 0)[:, None], -1, np.column_stack([u, v]))


class _Far(_Hashed):
    def draw_pairs(self, size, rng):
        if self.made is None:
            self.made = self.keys()
        N = self.data.n_rows
        u, v, left = rng.integers(N, size=size), np.full(size, -1), np.arange(size)
        table = rng.integers(self.made.shape[1], size=size)
        for _ in range(_TRIES):
            tried = rng.integers(N, size=left.size)
            apart = self.made[u[left], table[left]] != self.made[tried, table[left]]
            v[left[apart]] = tried[apart]
            left = left[~apart]
        return np.where((v < 0)[:, None], -1, np.column_stack([u, v]))

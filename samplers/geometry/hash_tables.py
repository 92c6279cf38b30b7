"""Hash tables of the data, in which near data are likely to share a bucket.

Real data are hashed by signs of random projections, after centring: data that all lie on one side of the origin have
nearly the same signs. So are data that may have missing values. Counts are hashed by weighted MinHash. Labels are not
read. O(N F n_bits), or O(nnz n_tables).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from expfam.amounts import counted
from expfam.errors import CapabilityError
from expfam.params import Integer, Settings, check_settings
from expfam.samplers.geometry.neighbourhood import neighbourhood
from expfam.structures.ground.rng import generator
from expfam.structures.hashing.min_hash import WeightedMinHash
from expfam.structures.hashing.sign_hash import SignHash
from expfam.user_warnings import warn

if TYPE_CHECKING:
    from expfam.model.data import Dataset

_TABLE_UNIT = 7  # stream of the purpose "tables"
_FEW = 100  # fewer data may have a large bucket without a warning


class HashTables(Settings):
    """Settings of several hash tables of the data.

    `n_bits`, 1..62, is for signs the number of bits of a key; ``"auto"`` is log2 N - 3, at least 2 and at most 16. For
    MinHash it is the number of hashes that a key combines; ``"auto"`` is 1. The method ``"auto"`` is MinHash for
    counts, categories and binary data, signs for other data, for data that may have missing values, and for families
    with coordinates of their own.
    """

    _constraints: ClassVar = {
        "n_bits": (Integer(1, 62), "auto"),
        "n_tables": Integer(1, 1000),
        "method": ("auto", "sign", "minhash"),
    }

    def __init__(
        self,
        *,
        n_bits: int | Literal["auto"] = "auto",
        n_tables: int = 10,
        method: Literal["auto", "sign", "minhash"] = "auto",
    ) -> None:
        self.n_bits, self.n_tables, self.method = n_bits, n_tables, method

    def check(self, data: Dataset) -> None:
        """Refuse settings out of range, and MinHash for data that may be negative."""
        check_settings(self)
        if self.chosen(data) == "minhash" and not _suits_min_hash(data.family):
            raise CapabilityError(
                f"MinHash needs data that are never negative and never missing; those of {data.family.name!r} may be:"
                " method='sign' takes them"
            )

    def memory_per_row(self, data: Dataset) -> int:
        """Return the bytes of a datum's keys, coordinates and codes, and of its part of the tables."""
        return 24 * self.n_tables + (8 * min(data.n_features, 256) if self.chosen(data) == "sign" else 0)

    def chosen(self, data: Dataset) -> Literal["sign", "minhash"]:
        """Return the method for some data; "auto" is resolved."""
        if self.method != "auto":
            return self.method
        if not (data.family.is_discrete and _suits_min_hash(data.family)):
            return "sign"
        # codes of missing categories are negative, unless the family converts them to counts
        is_negative = data.family.tags()["categorical"] and not data.has_sparse_phi and (data.X < 0).any()
        return "sign" if is_negative else "minhash"

    def keys(self, data: Dataset, *, seed: int, epoch: int, n_threads: int | None = None) -> npt.NDArray[np.uint64]:
        """Compute the key of each datum in each table: (N, n_tables) uint64.

        Each epoch has other hash functions.

        Parameters
        ----------
        data : Dataset
        seed : int
            Seed of the chain, 64 bits.
        epoch : int
            Number of the epoch.
        n_threads : int or None
            Number of threads; the keys do not depend on it.
        """
        own = int(generator(seed, "tables", unit=_TABLE_UNIT, step=epoch).integers(1 << 63))
        if self.chosen(data) == "minhash":
            n_hashes = 1 if self.n_bits == "auto" else int(self.n_bits)
            X = data.phi_csr(0, data.n_rows) if data.has_sparse_phi else data.X
            tables = WeightedMinHash(X.shape[1], n_tables=self.n_tables, n_hashes=n_hashes, seed=own)
            return tables.keys(X, n_threads=n_threads)
        return _sign_keys(coordinates(data, seed), self.bits_of(data), self.n_tables, own, n_threads)

    def bits_of(self, data: Dataset) -> int:
        """Return the number of bits of a key by signs."""
        if self.n_bits == "auto":
            return int(np.clip(np.log2(data.n_rows) - 3, 2, 16))
        return int(self.n_bits)

    def compared(self, data: Dataset, keys: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.uint64], bool]:
        """Return words by which the similarity of two data is measured.

        Parameters
        ----------
        data : Dataset
        keys : (N, n_tables) uint64 ndarray
            Result of `keys`.

        Returns
        -------
        words : (N, n_words) uint64 ndarray
        by_bits : bool
            Whether similar data share many bits; if not, they share many words.
        """
        if self.chosen(data) == "minhash":
            return keys, False
        n_bits = self.bits_of(data)
        each = 64 // n_bits  # number of keys in a word
        words = np.zeros((len(keys), -(-self.n_tables // each)), dtype=np.uint64)
        for which in range(self.n_tables):
            words[:, which // each] |= keys[:, which] << np.uint64(which % each * n_bits)
        return words, True


def _suits_min_hash(family):
    """Return whether rows are weights of columns: never negative, never missing."""
    is_weighted = family.is_discrete or family.tags()["positive_only"]
    return is_weighted and not (family.has_own_coordinates or family.allows_missing)


def coordinates(data: Dataset, seed: int) -> npt.NDArray[np.float32]:
    """Compute centred coordinates, which are similar for near data: (N, d) float32."""
    points = neighbourhood(data, seed)
    return points - points.mean(axis=0, dtype=np.float64).astype(np.float32)  # a copy: the points may be the data


def _sign_keys(points, n_bits, n_tables, seed, n_threads):
    """Compute keys of `n_bits` signs: consecutive bits of one long code."""
    keys = np.zeros((len(points), n_tables), dtype=np.uint64)
    most = 4096 // n_bits  # tables whose keys one code holds
    for first in range(0, n_tables, most):
        n = min(most, n_tables - first)
        # projections with entries of plus or minus 1 have only two planes in two dimensions, and ties
        codes = SignHash(n_bits * n, entries="gaussian8", seed=seed + first).codes(points, n_threads=n_threads)
        keys[:, first : first + n] = _bits(codes, n_bits * np.arange(n), n_bits)
    return keys


def _bits(codes, starts, n_bits):
    """Extract fewer than 64 consecutive bits of each row of words, from n places: (N, n) uint64."""
    word, offset = np.divmod(starts, 64)
    found = codes[:, word] >> offset.astype(np.uint64)
    across = np.flatnonzero(offset + n_bits > 64)
    if across.size:
        found[:, across] |= codes[:, word[across] + 1] << (64 - offset[across]).astype(np.uint64)
    return found & np.uint64((1 << n_bits) - 1)


def warn_of_large_buckets(largest: int, n_rows: int) -> None:
    """Warn if more than half of the data share a bucket of most tables.

    Near anchors are then hardly better than uniform ones.
    """
    if n_rows >= _FEW and 2 * largest > n_rows:
        warn(
            f"the largest bucket of a hash table holds {largest} of {counted(n_rows, 'datum', 'data')}: take more "
            "bits, or other anchors",
            UserWarning,
        )

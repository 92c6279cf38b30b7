"""Weighted min-hash beside datasketch's, and tables of buckets beside a dictionary of lists of Python."""

import numpy as np
from scipy import sparse

from expfam.structures.hashing.lsh import LshTables
from expfam.structures.hashing.min_hash import WeightedMinHash, column_bounds

N_HASHES = 64


def weights(kind, n_rows):
    rng = np.random.default_rng(0)
    if kind == "dense":
        return rng.gamma(1.0, size=(n_rows, 64))
    n_columns, per_row = 100_000, 60
    columns = np.sort((n_columns * rng.random((n_rows, per_row)) ** 3).astype(np.int32), axis=1)
    indptr = np.arange(0, n_rows * per_row + 1, per_row, dtype=np.int32)
    X = sparse.csr_array((rng.poisson(1.0, columns.size) + 1.0, columns.ravel(), indptr), shape=(n_rows, n_columns))
    X.sum_duplicates()
    return X


class Hash:
    """64 hashes of each row; rejection on dense rows only."""

    params = (["icws", "rejection"], ["dense", "csr"], [2000])
    param_names = ("method", "kind", "n_rows")

    def setup(self, method, kind, n_rows):
        if (method, kind) == ("rejection", "csr"):
            raise NotImplementedError("short rows of many columns fill a thousandth of their bounds")
        self.X = weights(kind, n_rows)
        upper = column_bounds(self.X) if method == "rejection" else None
        self.hash = WeightedMinHash(self.X.shape[1], n_tables=N_HASHES, method=method, upper=upper, seed=0)

    def time_keys(self, method, kind, n_rows):
        self.hash.keys(self.X)

    def time_one_row(self, method, kind, n_rows):
        self.hash.keys(self.X[:1])


class Datasketch:
    """The same rows and number of hashes by datasketch's generator (ICWS in NumPy)."""

    params = (["dense", "csr"], [2000])
    param_names = ("kind", "n_rows")

    def setup(self, kind, n_rows):
        try:
            from datasketch import WeightedMinHashGenerator
        except ImportError:
            raise NotImplementedError("datasketch is not installed") from None
        self.X = sparse.csr_matrix(weights(kind, n_rows))
        self.generator = WeightedMinHashGenerator(self.X.shape[1], sample_size=N_HASHES, seed=0)

    def time_keys(self, kind, n_rows):
        self.generator.minhash_many(self.X)


class Tables:
    """Ten tables of 100 000 items whose buckets hold about a hundred."""

    params = ([100_000], [10])
    param_names = ("n_items", "n_tables")

    def setup(self, n_items, n_tables):
        rng = np.random.default_rng(0)
        self.keys = rng.integers(0, n_items // 100, (n_items, n_tables)).astype(np.uint64)
        self.tables = LshTables(self.keys)
        self.items = rng.integers(0, n_items, 100_000)
        self.others = rng.integers(0, n_items, 100_000)
        self.few = self.items[:1000]
        self.rng = np.random.default_rng(1)

    def time_build(self, n_items, n_tables):
        LshTables(self.keys)

    def time_draw(self, n_items, n_tables):
        self.tables.draw_neighbours(self.items, self.rng)

    def time_probability(self, n_items, n_tables):
        self.tables.lss_probability(self.items, self.others)

    def time_remove_and_insert(self, n_items, n_tables):
        for item in self.few:
            self.tables.remove(item)
            self.tables.insert(item, self.keys[item])

    def track_bytes(self, n_items, n_tables):
        return self.tables.nbytes / n_items / n_tables

    track_bytes.unit = "bytes per item and table"


class Dictionaries:
    """What one would write instead of `Tables`."""

    params = Tables.params
    param_names = Tables.param_names

    def setup(self, n_items, n_tables):
        self.keys = np.random.default_rng(0).integers(0, n_items // 100, (n_items, n_tables)).tolist()
        self.tables = self.build()
        self.items = np.random.default_rng(1).integers(0, n_items, 100_000).tolist()

    def build(self):
        tables = [{} for _ in self.keys[0]]
        for item, row in enumerate(self.keys):
            for table, key in zip(tables, row):
                table.setdefault(key, []).append(item)
        return tables

    def time_build(self, n_items, n_tables):
        self.build()

    def time_draw(self, n_items, n_tables):
        import random

        for item in self.items:
            table = random.randrange(n_tables)
            bucket = self.tables[table][self.keys[item][table]]
            while len(bucket) > 1 and random.choice(bucket) == item:
                pass

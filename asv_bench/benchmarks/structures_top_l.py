"""The largest values of each row, beside `numpy.argpartition` (which leaves them unsorted)."""

import numpy as np

from expfam.structures import select_top


class Select:
    """Ten thousand rows."""

    params = (
        [(50, 4), (200, 4), (200, 8), (800, 4), (200, 32), (800, 32), (800, 100)],
        ["float32", "float64"],
        ["ours", "numpy"],
    )
    param_names = ("size_and_kept", "dtype", "method")

    def setup(self, size_and_kept, dtype, method):
        self.values = np.random.default_rng(0).normal(size=(10_000, size_and_kept[0])).astype(dtype)

    def time_select(self, size_and_kept, dtype, method):
        if method == "ours":
            select_top(self.values, size_and_kept[1])
        else:
            chosen = np.argpartition(self.values, -size_and_kept[1], axis=1)[:, -size_and_kept[1] :]
            np.take_along_axis(self.values, chosen, axis=1)

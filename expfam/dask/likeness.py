"""Whether all workers compute the same bits, by a hash of one small problem.

Workers with other processors choose other instructions, or another BLAS rounds differently. Labels then depend on which
worker has which rows, and on workers that are lost.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from expfam.amounts import counted
from expfam.engines.dask import DaskEngine, distributed
from expfam.errors import ExactnessWarning
from expfam.structures.simd import probe
from expfam.user_warnings import warn

_ROWS, _COLUMNS, _CLUSTERS = 512, 65, 16


@lru_cache(maxsize=1)
def hash_of_scores() -> str:
    """Return a hash of what this process computes from 512 x 65 fixed numbers.

    Examples
    --------
    >>> from expfam.dask.likeness import hash_of_scores
    >>> len(hash_of_scores())
    40
    """
    rows = np.random.default_rng(0).normal(size=(_ROWS, _COLUMNS))
    scores = rows @ rows[:_CLUSTERS].T
    flat = np.abs(scores.ravel()) + 1.0
    weights, sums, total = probe.softmax_weights(scores.ravel())
    dots = [probe.dot(rows[0], row) for row in rows[:_CLUSTERS]]
    found = hashlib.sha1(usedforsecurity=False)
    for numbers in (scores, np.exp(scores), weights, sums, total, probe.log(flat), probe.log_rising(flat, 2.5), dots):
        found.update(np.ascontiguousarray(numbers, dtype=np.float64).tobytes())
    return found.hexdigest()


def warn_of_unlike(hashes: Mapping[str, str]) -> None:
    """Warn with an ExactnessWarning where workers, by name, have computed other bits than most.

    Examples
    --------
    >>> import warnings
    >>> from expfam.dask.likeness import warn_of_unlike
    >>> with warnings.catch_warnings(record=True) as said:
    ...     warnings.simplefilter("always")
    ...     warn_of_unlike({"worker 0": "a", "worker 1": "b", "worker 2": "a"})
    >>> "1 worker computes other bits than the others: worker 1" in str(said[0].message)
    True
    """
    if len(set(hashes.values())) < 2:
        return
    usual = Counter(hashes.values()).most_common(1)[0][0]
    others = sorted(worker for worker, found in hashes.items() if found != usual)
    verb = "computes" if len(others) == 1 else "compute"
    warn(
        f"{counted(len(others), 'worker')} {verb} other bits than the others: {', '.join(others[:4])}; labels may"
        " depend on which worker has which rows. Begin all workers with the same instructions:"
        " EXPFAM_ISA=base OPENBLAS_CORETYPE=Prescott dask worker ...",
        ExactnessWarning,
    )


def engine_on(client: distributed.Client) -> DaskEngine:
    """Return an engine of a Dask cluster; warn where its workers compute different bits."""
    warn_of_unlike(client.run(hash_of_scores, on_error="ignore"))
    return DaskEngine(client)

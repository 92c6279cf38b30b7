"""Scores of left-out words of documents that lie in blocks."""

from __future__ import annotations

from typing import Any

import numpy as np

import expfam.engines.dask  # noqa: F401  # isort: skip  (it says what to install where Dask is missing)
import dask
import dask.array as da

from expfam.errors import DataError
from expfam.evaluation.held_out import count_units


def completion_of_blocks(model: Any, X: Any) -> Any:
    """Return the mean log probability of a left-out token, nats.

    It is a lazy number for a dask array or frame. The same words are left out for any blocks.

    Parameters
    ----------
    model : expfam.TopicModel
        Fitted.
    X : dask array, dask frame, or anything that `expfam.TopicModel.score` takes
    """
    if hasattr(X, "to_dask_array"):
        blocks = X.to_delayed()
    elif isinstance(X, da.Array):
        blocks = X.rechunk({1: -1}).to_delayed().ravel()
    else:
        return model.score(X)
    count, complete, kept = (
        dask.delayed(_n_units, pure=False),
        dask.delayed(_completed, pure=False),
        dask.delayed(model),
    )
    sizes = [count(kept, block) for block in blocks]
    found = [complete(kept, block, sizes, place) for place, block in enumerate(blocks)]
    return da.from_delayed(dask.delayed(_mean, pure=False)(found), shape=(), dtype=np.float64)


def _n_units(model, X):
    return count_units(model._validate(X, reset=False))


def _completed(model, X, sizes, place):
    """Return the sum of the log probabilities of left-out tokens of a block, and their number."""
    if not sizes[place]:
        return 0.0, 0.0
    sums, n_tokens = model._completed(X, sum(sizes[:place]))
    return float(sums.sum()), float(n_tokens.sum())


def _mean(found):
    total, count = np.sum(found, axis=0)
    if not count:
        raise DataError("document completion needs documents with at least two word types; there is none")
    return np.float64(total / count)

"""Misuse of chunks that every estimator refuses alike."""

import numpy as np
import pytest

from expfam.errors import CapabilityError, DataError


def check_refusals(model, X, *, n_few, n_columns, sampler):
    """Try chunks that a model of a memoized schedule refuses, after it has learned the rows of X as chunk "a".

    Parameters
    ----------
    model : Mixture or TopicModel
        It has learned nothing yet.
    X : (N, V) ndarray
    n_few, n_columns : int
        Fewer rows, and fewer columns, than X has.
    sampler : Kernel
        Another number of active clusters than the model's.
    """
    n = len(X)
    with pytest.raises(DataError, match="no chunks"):
        model.fit_chunks([])
    with pytest.raises(DataError, match="3 parts"):
        model.fit_chunks([(X, None, None)])
    model.partial_fit(X, batch="a")
    with pytest.raises(DataError, match=rf"batch 'a' had {n} rows.* {n_few} rows"):
        model.partial_fit(X[:n_few], batch="a")
    with pytest.raises(DataError, match=f"{n} rows of total weight {n}"):
        model.partial_fit(X, sample_weight=np.full(n, 2.0), batch="a")
    with pytest.raises(ValueError, match="integer or a string"):
        model.partial_fit(X, batch=1.5)
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:, :n_columns])
    own, model.sampler = model.sampler, sampler
    with pytest.raises(CapabilityError, match="n_active changed"):
        model.partial_fit(X)
    model.sampler = own

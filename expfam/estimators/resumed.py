"""Fits that are kept in a folder, and go on from there."""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from expfam.estimators.lines import call_of, settings_of
from expfam.fitting.kept_run import keeping, refuse_chains, taking_seed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from expfam.model.data import Dataset

_FREE = ("n_threads", "callbacks", "memory_limit", "time_limit", "random_state")  # no result depends on them


@contextmanager
def seeded_fit(estimator: Any, resume: Any) -> Iterator[None]:
    """Let a fit without a seed of its own take that of the run it goes on with.

    Parameters
    ----------
    estimator : Estimator
    resume : path_like, Checkpoint or None

    Raises
    ------
    CapabilityError
        The run of several chains is to be kept.
    """
    refuse_chains(resume, getattr(estimator, "n_chains", 1), type(estimator).__name__)
    with taking_seed(resume):
        yield


@contextmanager
def kept_fit(estimator: Any, resume: Any, data: Dataset, seed: int, *, start: Any = None) -> Iterator[None]:
    """Keep the run of a fit in a folder, or go on with the one that is kept there.

    Parameters
    ----------
    estimator : Estimator
    resume : path_like, Checkpoint or None
    data : Dataset
    seed : int
    start : "auto" or (N,) array_like of int, optional
        Labels that the fit begins from; by default the setting of the estimator.

    Raises
    ------
    ArchiveError
        The folder holds the run of other data, settings or of another version.
    CapabilityError
        The run of several chains is to be kept.
    """
    refuse_chains(resume, getattr(estimator, "n_chains", 1), type(estimator).__name__)
    with keeping(resume, data, {} if resume is None else _facts(estimator, start), seed):
        yield


def _facts(estimator, start):
    """Return the settings on which the result depends, and the version, as texts."""
    texts = {name: text for name, text in settings_of(estimator).items() if name not in _FREE}
    line = call_of(type(estimator).__name__, list(texts), texts)
    facts = {"version": version("expfam"), "estimator": line}
    start = getattr(estimator, "start", None) if start is None else start
    if start is not None and not isinstance(start, str):
        facts["start"] = _digest(repr(np.asarray(start).tolist()).encode())
    graph = getattr(getattr(estimator, "sampler", None), "candidates", None)
    if sparse.issparse(graph):  # the text of the settings tells only its shape
        graph = sparse.csr_array(graph)
        facts["graph"] = _digest(*(np.ascontiguousarray(part).tobytes() for part in (graph.indptr, graph.indices)))
    return facts


def _digest(*parts):
    return hashlib.blake2b(b"".join(parts), digest_size=16).hexdigest()

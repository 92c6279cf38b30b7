"""Topics of halves of the documents, and the clusters of tokens that they make.

Documents mix topics, so what is compared are tokens: a topic is the cluster of the tokens whose most probable topic it
is. Tokens of one word in one document have the same topic, so that each stored count is a row that counts as often as
it says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from expfam.coarsening.found_again import known_tree
from expfam.coarsening.half_fits import HalfFit, halves
from expfam.coarsening.recognised_groups import PlainTree, agreement_of_halves
from expfam.fitted.document_topics import topics_of_counts
from expfam.fitting.topic_starts import topic_start
from expfam.model.mixture import MixtureModel
from expfam.model.weights import SymmetricDirichlet
from expfam.samplers.chain.driver import advance
from expfam.samplers.topics.gibbs import TopicGibbs
from expfam.samplers.topics.variational import TopicVariational
from expfam.structures.ground.threads import run

if TYPE_CHECKING:
    from expfam.coarsening.curve import CoarseningCurve
    from expfam.model.admixture import AdmixtureModel
    from expfam.model.data import Dataset
    from expfam.protocols import Floats

_SWEEPS, _EVERY, _KEPT = 40, 5, 6  # of a half by Gibbs sampling, then sweeps from one mean to the next, and means
_PASSES = 30  # of a half by variational inference
_LITTLE = 1e-6


class Tokens(NamedTuple):
    """Tokens of documents, one entry for each stored count.

    Attributes
    ----------
    labels : (nnz,) int32 ndarray
        Topics of a fit.
    mass : (nnz,) float64 ndarray
        Tokens, times the weight of their document.
    """

    labels: npt.NDArray[np.int32]
    mass: Floats


def tree_of_words(S: npt.ArrayLike) -> Floats:
    """Return merges of the topics that their words tell apart least: (K - 1, 4) float64.

    Parameters
    ----------
    S : (K, V) array_like
        Tokens of words in topics. A topic without any is merged first.

    Examples
    --------
    >>> from expfam.coarsening.topic_halves import tree_of_words
    >>> tree_of_words([[9.0, 1.0, 0.0], [8.0, 2.0, 0.0], [0.0, 1.0, 9.0]])[:, :2].tolist()
    [[0.0, 1.0], [2.0, 3.0]]
    """
    counts = np.asarray(S, dtype=np.float64)
    empty = counts.sum(axis=1) <= _LITTLE
    if empty.any():  # no information has rows without tokens
        counts = counts + _LITTLE * empty[:, None] * (counts.sum(axis=0) + 1.0 / counts.shape[1])
    return known_tree([counts])


def topics_found_again(
    model: AdmixtureModel,
    data: Dataset,
    components: Floats,
    counts: Floats,
    *,
    is_sampled: bool,
    seed: int,
    n_threads: int | None,
) -> CoarseningCurve:
    """Return how well the cuts of a fit's topics are found again by halves of its documents.

    Parameters
    ----------
    model : AdmixtureModel
        Of the fit.
    data : Dataset
        Some documents.
    components, counts : (K, V) array
        Tokens of words in topics, with their pseudo-counts and without.
    is_sampled, seed, n_threads
        As in `topic_half_fits`.
    """
    found = topic_half_fits(model, data, is_sampled=is_sampled, seed=seed, n_threads=n_threads)
    tokens = tokens_of(components, model.pseudocounts, data, n_threads=n_threads)
    plain = PlainTree("words", tree_of_words(counts), lambda half: tree_of_words(half.S), _unknown)
    sizes, own = counts.sum(axis=1), model.family.name
    return agreement_of_halves(found, tokens.labels, tokens.mass, sizes, plain, own=own, n_threads=n_threads)


def _unknown(tree):
    return np.full(len(tree) + 1, np.nan)  # topics are means, and so are those of cuts


def tokens_of(components: Floats, alpha: Floats, data: Dataset, *, n_threads: int | None) -> Tokens:
    """Return the tokens of documents with their topics.

    Parameters
    ----------
    components : (K, V) array
        Pseudo-counts of words in topics.
    alpha : (K,) array
    data : Dataset
        Documents.
    n_threads : int or None
    """
    X = _rows_of(data)
    count = X.data.astype(np.float64)
    if data.weight is not None:
        count *= np.repeat(data.weight, np.diff(X.indptr))
    return Tokens(topics_of_counts(components, alpha, X, n_threads), count)


def topic_half_fits(
    model: AdmixtureModel, data: Dataset, *, is_sampled: bool, seed: int, n_threads: int | None
) -> list[HalfFit]:
    """Fit as many topics to both halves of four random splits of the documents.

    Parameters
    ----------
    model : AdmixtureModel
        Of the fit, with its pseudo-counts, which are not learned again.
    data : Dataset
        Documents.
    is_sampled : bool
        Gibbs sampling; otherwise variational inference.
    seed, n_threads
        As of `expfam.coarsening.half_fits.half_fits`.

    Returns
    -------
    list of HalfFit
        Statistics are expected tokens; `labels` are topics of all tokens, in the order of `tokens_of`.
    """
    tasks = [(model, data, rows, is_sampled, seed + place) for place, rows in enumerate(halves(data.n_rows, seed=seed))]
    return run(_fit, tasks, n_threads)


def _fit(model, data, rows, is_sampled, seed):
    counts = _sampled_counts if is_sampled else _variational_counts
    counts = counts(model, data.take(rows), seed).T
    eta = model.family.pseudocounts()[0]
    components = np.ascontiguousarray(model.seeded(counts.T).T + eta)
    labels = tokens_of(components, model.pseudocounts, data, n_threads=1).labels
    used = np.unique(labels)  # a topic may hold the most probable tokens of no document
    S = np.ascontiguousarray(counts[used])
    labels = np.searchsorted(used, labels).astype(np.int32)
    return HalfFit(model.family.name, _mixture(model), S.sum(axis=1), S, labels)


def _mixture(model):
    """Return the mixture whose clusters are the topics and whose rows are single tokens."""
    return MixtureModel(model.family, SymmetricDirichlet(model.n_components, 1.0))


def _sampled_counts(model, part, seed):
    """Return the tokens of words in topics (V, K), means over some sweeps."""
    kernel = TopicGibbs(learn_alpha=False)
    start = topic_start(kernel, model, part, "variational", seed=seed, n_threads=1)
    state = kernel.init(model, part, seed=seed, start=start)
    advance(kernel, state, _SWEEPS)
    counts = np.zeros((state.tokens.n_words, model.n_components))
    for _ in range(_KEPT):
        advance(kernel, state, _EVERY)
        state.tokens.add_word_topics(counts)
    return counts / _KEPT


def _variational_counts(model, part, seed):
    kernel = TopicVariational(n_threads=1)
    start = topic_start(kernel, model, part, "auto", seed=seed, n_threads=1)
    state = kernel.init(model, part, seed=seed, start=start)
    advance(kernel, state, _PASSES)
    return state.word_counts


def _rows_of(data):
    """Return documents as CSR without stored zeros."""
    X = sparse.csr_array(data.X)
    if not X.data.all():
        X = X.copy()  # the documents belong to the caller
        X.eliminate_zeros()
    return X

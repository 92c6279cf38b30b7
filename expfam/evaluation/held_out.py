"""Held-out scores: what is left out, and how well topics complete documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import sparse

from expfam.errors import DataError
from expfam.families.support import first_where
from expfam.params import Real, check_value
from expfam.samplers.topics.new_documents import document_weights
from expfam.structures.ground.rng import generator

if TYPE_CHECKING:
    from collections.abc import Iterable

    from expfam.model.groups import Groups

_HELD_SHARE = 0.2


def document_completion(
    components: npt.ArrayLike,
    alpha: npt.ArrayLike,
    X: Any,
    *,
    share: float = _HELD_SHARE,
    unit: Literal["type", "token"] = "type",
    per: Literal["token", "document"] = "token",
    seed: int = 0,
    rule: Literal["collapsed", "variational"] = "collapsed",
    n_threads: int | None = None,
) -> tuple[float, int, int]:
    """Score topics by how well they complete documents of which they saw a part.

    Of each document a share of its word types, with all their tokens, or of its tokens is left out; weights come from
    the others. Perplexity per token is exp(-score) of the default `per`.

    Parameters
    ----------
    components : (K, V) array_like
        Pseudo-counts of words in topics; words that were never seen should have some.
    alpha : float or (K,) array_like
    X : array_like or sparse matrix, shape (D, V)
        Documents; those with fewer than two of the unit are skipped.
    share : float in (0, 1)
        Rounded for each document, at least one of the unit on each side.
    unit : {"type", "token"}
        What is left out; tokens need whole counts. Left-out types are words that the weights have not seen, which is
        the harder of the two.
    per : {"token", "document"}
        Unit of the score: nats per left-out token, all of them alike, or nats per document, all left-out tokens of a
        document together.
    seed : int
        Of the choice of what is left out.
    rule : {"collapsed", "variational"}
        How the weights are worked out: see `document_weights`.
    n_threads : int or None

    Returns
    -------
    score : float
        Sum of log sum_k weight_k phi_kv over all left-out tokens, divided by their number or that of the documents.
    n_tokens : int
        Left-out tokens.
    n_skipped : int
        Documents skipped.

    Raises
    ------
    DataError
        If no document has two of the unit.

    Examples
    --------
    >>> from expfam.evaluation.held_out import document_completion
    >>> X = [[3, 3, 0, 0], [0, 0, 3, 3]]
    >>> good, bad = [[9, 9, 1, 1], [1, 1, 9, 9]], [[9, 1, 9, 1], [1, 9, 1, 9]]
    >>> document_completion(good, 0.1, X)[0] > document_completion(bad, 0.1, X)[0]
    True
    """
    check_value("per", per, ("token", "document"))
    sums, counts, n_skipped = completed_documents(
        [(components, alpha)], X, share=share, unit=unit, seed=seed, rule=rule, n_threads=n_threads
    )
    n_tokens = counts.sum()
    return float(sums.sum() / (n_tokens if per == "token" else len(sums))), int(n_tokens), n_skipped


def completed_documents(
    draws: Iterable[tuple[npt.ArrayLike, npt.ArrayLike]],
    X: Any,
    *,
    share: float = _HELD_SHARE,
    unit: Literal["type", "token"] = "type",
    seed: int = 0,
    n_before: int = 0,
    rule: Literal["collapsed", "variational"] = "collapsed",
    n_threads: int | None = None,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], int]:
    """Return log probability and number of left-out tokens of each document.

    Probabilities are means over the draws. The sums make the score of `document_completion`.

    Parameters
    ----------
    draws : iterable of pairs (components, alpha)
        Pseudo-counts of each draw, or of the one model, as in `document_completion`. Topics of different draws need
        not correspond. Only one draw is held at a time.
    X, share, unit, seed, rule, n_threads
        As in `document_completion`.
    n_before : int
        As in `split_documents`.

    Returns
    -------
    log_probability : (D',) float64 ndarray
        Nats, of all left-out tokens of a document together; skipped documents have no entry.
    n_tokens : (D',) float64 ndarray
    n_skipped : int

    Raises
    ------
    DataError
        If no document has two of the unit.
    ValueError
        If there is no draw.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.evaluation.held_out import completed_documents
    >>> X, draws = [[3, 3, 0, 0], [0, 0, 2, 2]], [([[9, 9, 1, 1], [1, 1, 9, 9]], 0.1), ([[1, 1, 1, 1]], 1.0)]
    >>> both = completed_documents(draws, X)[0]
    >>> p = [np.exp(completed_documents([draw], X)[0] / [3, 2]) for draw in draws]
    >>> bool(np.allclose(both / [3, 2], np.log(np.mean(p, axis=0))))
    True
    """
    seen, held, n_skipped = split_documents(X, share=share, unit=unit, seed=seed, n_before=n_before)
    if held.shape[0] == 0:
        what = "word types" if unit == "type" else "tokens"
        raise DataError(f"document completion needs documents with at least two {what}; there is none")
    p, n_draws = np.zeros(held.nnz), 0
    for components, alpha in draws:
        weights = document_weights(components, alpha, seen, rule=rule, n_threads=n_threads)
        _add_probabilities(p, np.asarray(components, dtype=np.float64), weights, held)
        n_draws += 1
    if not n_draws:
        raise ValueError("completed_documents: there are no draws: give at least one pair (components, alpha)")
    sums, docs = np.zeros(held.shape[0]), _documents_of(held)
    np.add.at(sums, docs, held.data * np.log(p / n_draws))
    return sums, np.asarray(held.sum(axis=1), dtype=np.float64).ravel(), n_skipped


def _add_probabilities(p, components, weights, held):
    """Add to `p` the probability of each left-out word, given the weights of topics."""
    phi = np.ascontiguousarray((components / components.sum(axis=1, keepdims=True)).T)
    docs, step = _documents_of(held), max(1, (1 << 20) // len(components))
    for start in range(0, held.nnz, step):
        part = slice(start, start + step)
        p[part] += np.einsum("ik,ik->i", weights[docs[part]], phi[held.indices[part]])


def _documents_of(held):
    """Return the document of each entry of a CSR array."""
    return np.repeat(np.arange(held.shape[0]), np.diff(held.indptr))


def split_documents(
    X: Any, *, share: float = _HELD_SHARE, unit: Literal["type", "token"] = "type", seed: int = 0, n_before: int = 0
) -> tuple[Any, Any, int]:
    """Split documents in two: what is seen and what is left out; count the too short ones.

    Parameters
    ----------
    X : array_like or sparse matrix, shape (D, V)
    share : float in (0, 1)
    unit : {"type", "token"}
        Whether word types go to one side with all their tokens, or tokens by themselves.
    seed : int
    n_before : int
        Where X is a part of the documents, `count_units` of all before it: parts are then split as the whole is.

    Returns
    -------
    seen, held : CSR arrays (D', V)
    n_skipped : int

    Examples
    --------
    >>> from expfam.evaluation.held_out import split_documents
    >>> seen, held, n_skipped = split_documents([[1, 2, 0], [0, 5, 0]])
    >>> seen.shape, held.nnz, n_skipped
    ((1, 3), 1, 1)
    >>> split_documents([[0, 5, 0]], unit="token")[1].toarray()
    array([[0, 1, 0]])
    """
    check_value("share", share, Real(0, 1))
    X, sizes = _with_sizes(X, unit)
    kept = np.flatnonzero(sizes >= 2)
    n_skipped, X, sizes = int(len(sizes) - len(kept)), X[kept], sizes[kept]
    entries = np.arange(X.nnz) if unit == "type" else np.repeat(np.arange(X.nnz), X.data.astype(np.int64))
    docs = np.repeat(np.arange(len(kept)), sizes)  # of each unit
    order = np.lexsort((_draws(seed, n_before, len(entries)), docs))
    rank = np.empty(len(entries), dtype=np.int64)
    rank[order] = np.arange(len(entries)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    is_held = rank < np.clip(np.round(share * sizes), 1, sizes - 1)[docs]
    counts = X.data if unit == "type" else np.ones(len(entries), dtype=X.dtype)
    parts = []
    for chosen in (~is_held, is_held):
        values = np.bincount(entries[chosen], weights=counts[chosen], minlength=X.nnz).astype(X.dtype)
        part = sparse.csr_array((values, X.indices.copy(), X.indptr.copy()), shape=X.shape)
        part.eliminate_zeros()
        parts.append(part)
    return parts[0], parts[1], n_skipped


def count_units(X: Any, *, unit: Literal["type", "token"] = "type") -> int:
    """Return the number of units of all documents that are split, those with at least two.

    Parameters
    ----------
    X : array_like or sparse matrix, shape (D, V)
    unit : {"type", "token"}

    Examples
    --------
    >>> from expfam.evaluation.held_out import count_units
    >>> count_units([[1, 2, 0], [0, 5, 0]]), count_units([[1, 2, 0], [0, 5, 0]], unit="token")
    (2, 8)
    """
    sizes = _with_sizes(X, unit)[1]
    return int(sizes[sizes >= 2].sum())


def _with_sizes(X, unit):
    """Return documents as CSR without zeros, and the number of units of each."""
    check_value("unit", unit, ("type", "token"))
    X = sparse.csr_array(X, copy=True)
    X.sum_duplicates()
    X.eliminate_zeros()
    if unit == "token" and first_where(X, lambda values: values != np.floor(values)) is not None:
        raise DataError(
            "unit='token' needs whole counts, each is so many tokens: write split_documents(X, unit='type') for others"
        )
    return X, np.diff(X.indptr) if unit == "type" else np.asarray(X.sum(axis=1)).ravel().astype(np.int64)


def _draws(seed, first, n):
    """Return n random numbers of a seed, from number `first` on."""
    rng = generator(seed, "subsample")
    rng.bit_generator.advance(first // 4)  # a block of the stream is four words, one for each number
    return rng.random(first % 4 + n)[first % 4 :]


def held_rows(
    groups: Groups, *, share: float = _HELD_SHARE, seed: int = 0, first_row: int = 0
) -> npt.NDArray[np.bool_]:
    """Return which rows to leave out of each group: (N,) bool, none of groups of one row.

    Parameters
    ----------
    groups : Groups
    share : float in (0, 1)
        Share of the rows of a group. It is rounded for each group, with at least one row on each side.
    seed : int
    first_row : int
        Number of the first row, where whole groups are among others. The rows that are left out are the same as
        together with the others.

    Examples
    --------
    >>> from expfam.evaluation.held_out import held_rows
    >>> from expfam.model.groups import Groups
    >>> held_rows(Groups([0, 0, 0, 0, 0, 1])).sum()
    np.int64(1)
    """
    sizes = groups.sizes
    draws = generator(seed, "subsample").random(first_row + len(groups.of_row))[first_row:]
    order = np.lexsort((draws, groups.of_row))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order)) - np.repeat(groups.starts[:-1], sizes)
    n_held = np.where(sizes >= 2, np.clip(np.round(share * sizes), 1, np.maximum(sizes - 1, 1)), 0)
    return rank < n_held[groups.of_row]

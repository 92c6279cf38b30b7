"""Seed words of topics: from what a user gives to pseudo-counts of words in topics."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import sparse

from expfam.params import Integer, check_value, is_auto

_SHARE = 0.01  # of all tokens, divided among the topics: pseudo-tokens of the seeds of one topic


def seed_matrix(
    seeds: Any, seed_tokens: Any, X: Any, n_topics: int, names: Any, n_shares: int | None = None
) -> sparse.csr_array | None:
    """Return the seeds as pseudo-counts of words in topics: (V, K) CSR, or None without a seed.

    Parameters
    ----------
    seeds : mapping of int to sequences of str or int, or None
        Seed words of topics, by name or by column.
    seed_tokens : int or "auto"
        Pseudo-tokens of each seed word. "auto" is a hundredth of the tokens of X, divided by the number of topics and
        by the number of seed words of the topic, and at least 1.
    X : (D, V) ndarray or CSR
        Counts of words.
    n_topics : int
    names : (V,) ndarray of str, or None
        Names of the words.
    n_shares : int, optional
        Topics among which "auto" divides, where their number is unknown; `n_topics` if not given.

    Raises
    ------
    ValueError
        For an unknown word or topic, or names where the words have none.
    """
    check_value("TopicModel: seed_tokens", seed_tokens, ("auto", Integer(1)))
    if seeds is None:
        return None
    if not isinstance(seeds, Mapping):
        raise ValueError(
            "TopicModel: seeds must be a dict of topic numbers and their words, such as {0: ['goal', 'match']}; got a"
            f" {type(seeds).__name__}"
        )
    columns = {} if names is None else {str(name): column for column, name in enumerate(names)}
    found = sparse.lil_array((X.shape[1], n_topics), dtype=np.int64)
    for topic, words in seeds.items():
        if topic not in Integer(0, n_topics - 1):
            raise ValueError(f"TopicModel: seeds name the topic {topic!r}; topics are the numbers 0 to {n_topics - 1}")
        if isinstance(words, str) or not np.iterable(words):
            raise ValueError(f"TopicModel: the seeds of topic {topic} must be a list of words; got {words!r}")
        places = sorted({_column(word, topic, columns, X.shape[1], names is not None) for word in words})
        if places:
            found[places, topic] = _tokens(seed_tokens, X, n_shares or n_topics, len(places))
    return found.tocsr().astype(np.int32) if found.nnz else None


def _tokens(seed_tokens, X, n_topics, n_words):
    if not is_auto(seed_tokens):
        return int(seed_tokens)
    return max(1, round(_SHARE * float(X.sum()) / (n_topics * n_words)))


def _column(word, topic, columns, n_words, has_names):
    if isinstance(word, str):
        if not has_names:
            raise ValueError(
                f"TopicModel: the seed word {word!r} of topic {topic} is a name, and the columns have none:"
                f" write TopicModel(vocabulary=[{word!r}, ...], seeds=...) with names of columns, or give the number"
                " of the column in place of the word"
            )
        if word not in columns:
            near = difflib.get_close_matches(word, columns, n=3)
            hint = f"; near to it: {', '.join(map(repr, near))}" if near else ""
            raise ValueError(f"TopicModel: the seed word {word!r} of topic {topic} is not in the vocabulary{hint}")
        return columns[word]
    if word not in Integer(0, n_words - 1):
        raise ValueError(
            f"TopicModel: the seeds of topic {topic} name the column {word!r}; the data have the columns 0 to"
            f" {n_words - 1}"
        )
    return int(word)

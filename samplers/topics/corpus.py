"""Checks, numbers of tokens and memory of a corpus, for the kernels of topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expfam.errors import CapabilityError

if TYPE_CHECKING:
    from expfam.model.data import Dataset


# of words, that estimators learn by sampling: topics of few tokens repeat their words, and by their counts alone new
# words would get too little (docs/measured.md)
LEAST_ETA = 0.015
SEEDED_ETA = "{}: the pseudo-count of words cannot be learned beside seeds: give eta a number, or no seeds"


def count_tokens(data: Dataset) -> tuple[int, int]:
    """Return the number of tokens, and an upper bound of the number of non-zero counts."""
    n_tokens = int(data.X.sum())
    return n_tokens, min(n_tokens, data.X.nnz if data.is_sparse else data.X.size)


def memory_of_tokens(n_tokens: float, n_entries: float, n_docs: float, n_topics: int) -> int:
    """Return the bytes of a chain over `n_tokens` tokens at its peak.

    The peak is reached while the tokens are sorted by word, or while the tables of counts are made.
    """
    listed = min(n_tokens, n_docs * n_topics)
    return int(max(20 * n_tokens + 28 * n_entries, 28 * n_tokens + 16 * listed) + 30 * n_docs + 60 * n_topics)


def check_admixture(model: Any, kernel: str) -> None:
    """Raise a CapabilityError unless the model is an AdmixtureModel of the family Multinomial.

    Only a Multinomial counts words, which have one topic each.

    Parameters
    ----------
    model : AdmixtureModel
        Any other model is refused.
    kernel : str
        Name of the kernel, for the message.

    Raises
    ------
    CapabilityError
    """
    if getattr(model, "n_components", None) is None:
        raise CapabilityError(f"{kernel} works on an AdmixtureModel; got {model!r}")
    if getattr(model.family, "count_model", None) != "multinomial":
        raise CapabilityError(f"{kernel} needs the family Multinomial; got {model.family!r}")

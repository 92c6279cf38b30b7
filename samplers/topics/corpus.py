"""What the kernels of topics ask of a corpus: its model, its numbers of tokens, and what a chain over these holds."""

from expfam.errors import CapabilityError


def count_tokens(data):
    """Tokens of documents, and at most so many stored counts that are not 0."""
    n_tokens = int(data.X.sum())
    return n_tokens, min(n_tokens, data.X.nnz if data.is_sparse else data.X.size)


def memory_of_tokens(n_tokens, n_entries, n_docs, n_topics):
    """Bytes of a chain over so many tokens at its peak: while they are sorted by word, or while counts are noted."""
    listed = min(n_tokens, n_docs * n_topics)
    return int(max(20 * n_tokens + 28 * n_entries, 28 * n_tokens + 16 * listed) + 30 * n_docs + 60 * n_topics)


def check_admixture(model, kernel):
    """Refuse families other than the multinomial, whose words have topics one by one."""
    if getattr(model, "n_components", None) is None:
        raise CapabilityError(f"{kernel} works on an AdmixtureModel; got {model!r}")
    if getattr(model.family, "count_model", None) != "multinomial":
        raise CapabilityError(f"{kernel} needs the family Multinomial; got {model.family!r}")

"""Data of the benchmarks: small generators of our own, each a function of its sizes and a fixed seed."""

import numpy as np
from scipy import sparse


def documents(n_rows, n_topics, *, n_words=5000, mean_length=60, seed=0):
    """Word counts of documents, each of one topic; topics and words follow Zipf's law.

    Returns X (n_rows, n_words) CSR float64 with int32 indices and the true topics (n_rows,).
    """
    rng = np.random.default_rng(seed)
    topics = zipf_labels(n_rows, n_topics, rng)
    common = 1.0 / np.arange(1, n_words + 1)
    common /= common.sum()
    lengths = np.maximum(1, rng.poisson(mean_length, n_rows))
    starts = np.concatenate([[0], np.cumsum(lengths)])
    words = np.empty(starts[-1], dtype=np.int32)
    token_topics = np.repeat(topics, lengths)
    order = np.argsort(token_topics, kind="stable")
    bounds = np.searchsorted(token_topics[order], np.arange(n_topics + 1))
    for k in range(n_topics):
        # a topic has its own order of the words of Zipf's law, mixed with the common one
        own = common[rng.permutation(n_words)]
        cumulative = np.cumsum(0.7 * own + 0.3 * common)
        size = bounds[k + 1] - bounds[k]
        drawn = np.searchsorted(cumulative, rng.random(size) * cumulative[-1], side="right")
        words[order[bounds[k] : bounds[k + 1]]] = drawn
    X = sparse.csr_array((np.ones(len(words)), words, starts.astype(np.int32)), shape=(n_rows, n_words))
    X.sum_duplicates()
    return X, topics


def zipf_documents(n_rows, n_topics, *, n_words=20000, mean_length=100, mass=500, seed=0):
    """Word counts of documents of one topic each, up to a million and more of them: blocks, no table topics x words.

    Topics are Dirichlet of total concentration `mass` around a law of Zipf's kind with exponent 1.05: words of an
    expected frequency well above 1 / mass are much the same in all topics, rare ones belong to few. Lengths are
    Poisson, at least 1; sizes of topics fall as the root of 1 / rank, so that the last topics of many are not lost.

    Returns X (n_rows, n_words) CSR int32 with sorted int32 indices, and the true topics (n_rows,).
    """
    rng = np.random.default_rng(seed)
    topics = zipf_labels(n_rows, n_topics, rng, exponent=0.5)
    base = np.arange(1, n_words + 1) ** -1.05
    base *= mass / base.sum()
    order = np.argsort(topics, kind="stable")
    blocks = []
    for size in np.bincount(topics, minlength=n_topics):
        cumulative = np.cumsum(rng.standard_gamma(base))
        for start in range(0, size, 1 << 15):
            lengths = np.maximum(1, rng.poisson(mean_length, min(size - start, 1 << 15)))
            blocks.append(_block_of_topic(lengths, cumulative, rng))
    counts, words, n_entries = (np.concatenate(parts) for parts in zip(*blocks))
    del blocks
    indptr = np.concatenate([[0], np.cumsum(n_entries)])
    indptr = indptr.astype(np.int32 if indptr[-1] < 2**31 else np.int64)
    place = np.empty(n_rows, dtype=np.int32)
    place[order] = np.arange(n_rows, dtype=np.int32)
    X = sparse.csr_array((counts, words.astype(indptr.dtype, copy=False), indptr), shape=(n_rows, n_words))[place]
    X.has_sorted_indices = True
    return X, topics


def admixtures(n_rows, n_topics, *, n_words=10000, mean_length=60, length_shape=None, alpha=0.05, mass=300, seed=0):
    """Word counts of documents that mix topics, in blocks, and the topics.

    Weights of a document are Dirichlet(alpha each); topics are Dirichlet of total concentration `mass` around a law of
    Zipf's kind. Lengths are Poisson, at least 1; with `length_shape` around means that are gamma variables of this
    shape, as long and short articles stand beside each other in news.

    Returns X (n_rows, n_words) CSR float64 with int32 indices and the true topics (n_topics, n_words).
    """
    rng = np.random.default_rng(seed)
    base = np.arange(1, n_words + 1) ** -1.05
    topics = rng.standard_gamma(np.broadcast_to(mass * base / base.sum(), (n_topics, n_words)))
    topics /= topics.sum(axis=1, keepdims=True)
    blocks = []
    for start in range(0, n_rows, 1 << 14):
        size = min(n_rows - start, 1 << 14)
        means = mean_length if length_shape is None else rng.gamma(length_shape, mean_length / length_shape, size)
        lengths = np.maximum(1, rng.poisson(means, size))
        weights = rng.dirichlet(np.full(n_topics, alpha), size=size).cumsum(axis=1)
        docs = np.repeat(np.arange(size), lengths)
        chosen = np.empty(len(docs), dtype=np.int64)
        for part in np.array_split(np.arange(len(docs)), 1 + len(docs) * n_topics // (1 << 24)):
            chosen[part] = (rng.random(len(part))[:, None] > weights[docs[part]]).sum(axis=1)
        words, uniforms = np.empty(len(docs), dtype=np.int32), rng.random(len(docs))
        np.minimum(chosen, n_topics - 1, out=chosen)
        for k in np.unique(chosen):
            here = chosen == k
            drawn = np.searchsorted(topics[k].cumsum(), uniforms[here], side="right")
            words[here] = np.minimum(drawn, n_words - 1)
        blocks.append(sparse.coo_array((np.ones(len(docs)), (docs, words)), shape=(size, n_words)).tocsr())
    return sparse.csr_array(sparse.vstack(blocks)), topics


def _block_of_topic(lengths, cumulative, rng):
    """Counts, words and number of entries by document of documents of one topic."""
    n_words = len(cumulative)
    drawn = np.searchsorted(cumulative, rng.random(lengths.sum()) * cumulative[-1], side="right")
    np.minimum(drawn, n_words - 1, out=drawn)
    drawn += np.repeat(np.arange(len(lengths)) * n_words, lengths)
    keys, counts = np.unique(drawn, return_counts=True)
    n_entries = np.bincount(keys // n_words, minlength=len(lengths))
    return counts.astype(np.int32), (keys % n_words).astype(np.int32), n_entries


def gaussians(n_rows, n_clusters, *, n_features=16, separation=3.0, exponent=1.0, concentration=None, seed=0):
    """Rows around Gaussian centres with a scale for each cluster and column; sizes fall as rank ** -exponent.

    With a concentration, the shares of the clusters are drawn from a symmetric Dirichlet law in place of that.

    Returns X (n_rows, n_features) float64 and the true clusters (n_rows,).
    """
    rng = np.random.default_rng(seed)
    if concentration is None:
        labels = zipf_labels(n_rows, n_clusters, rng, exponent=exponent)
    else:
        labels = rng.choice(n_clusters, n_rows, p=rng.dirichlet(np.full(n_clusters, concentration)))
    centers = rng.normal(scale=separation, size=(n_clusters, n_features))
    scales = np.exp(rng.normal(scale=0.3, size=(n_clusters, n_features)))
    return centers[labels] + scales[labels] * rng.normal(size=(n_rows, n_features)), labels


def nested_gaussians(n_rows, n_clusters, *, n_features=32, separation=1.0, ratio=2.0, seed=0, dtype=np.float32):
    """Rows with unit noise around centres in three nested scales: a root of third order of them below each node.

    Offsets are Gaussian with standard deviation `separation` in each column at the finest scale, `ratio` times the
    finer one's at the other two. Clusters are equally likely.

    Returns X (n_rows, n_features) of `dtype` and the true clusters (n_rows,).
    """
    rng = np.random.default_rng(seed)
    k = np.arange(n_clusters)
    width = max(1, round(n_clusters ** (1 / 3)))
    centers = np.zeros((n_clusters, n_features))
    for scale, node in ((ratio**2, k // width**2), (ratio, k // width), (1.0, k)):
        centers += separation * scale * rng.normal(size=(node[-1] + 1, n_features))[node]
    labels = zipf_labels(n_rows, n_clusters, rng, exponent=0.0)
    X = rng.standard_normal((n_rows, n_features), dtype=dtype)
    for start in range(0, n_rows, 1 << 16):
        X[start : start + (1 << 16)] += centers[labels[start : start + (1 << 16)]]
    return X, labels


def levels(n_rows, n_clusters, *, n_features=20, n_levels=5, seed=0):
    """Columns of whole numbers below `n_levels`, each cluster with its own law of each column."""
    rng = np.random.default_rng(seed)
    labels = zipf_labels(n_rows, n_clusters, rng)
    cumulative = np.cumsum(rng.dirichlet(np.full(n_levels, 0.5), size=(n_clusters, n_features)), axis=2)
    X = np.empty((n_rows, n_features))
    for j in range(n_features):
        X[:, j] = (rng.random(n_rows)[:, None] > cumulative[labels, j, :-1]).sum(axis=1)
    return X, labels


def counts(n_rows, n_clusters, *, n_features=20, seed=0):
    """Dense Poisson counts with a rate for each cluster and column."""
    rng = np.random.default_rng(seed)
    labels = zipf_labels(n_rows, n_clusters, rng)
    rates = rng.gamma(1.0, 4.0, size=(n_clusters, n_features))
    return rng.poisson(rates[labels]).astype(np.float64), labels


def sparse_counts(n_rows, n_clusters, *, n_features=2000, per_row=8, seed=0):
    """A matrix of many rows with few counts each, made without a loop over rows: CSR with `per_row` draws a row."""
    rng = np.random.default_rng(seed)
    labels = zipf_labels(n_rows, n_clusters, rng)
    width = 40  # a cluster's words are a window of the vocabulary, with the larger part of its draws
    home = rng.integers(0, n_features - width, n_clusters)
    own = rng.random((n_rows, per_row)) < 0.8
    words = np.where(
        own,
        home[labels][:, None] + rng.integers(0, width, (n_rows, per_row)),
        rng.integers(0, n_features, (n_rows, per_row)),
    ).astype(np.int32)
    words.sort(axis=1)
    indptr = np.arange(0, n_rows * per_row + 1, per_row, dtype=np.int32)
    X = sparse.csr_array(
        (np.ones(n_rows * per_row, dtype=np.float32), words.ravel(), indptr), shape=(n_rows, n_features)
    )
    X.sum_duplicates()
    return X, labels


def short_documents(n_rows, n_topics, *, n_words=5000, per_topic=40, seed=0):
    """Documents of 3 to 8 tokens, each of one topic of a few words: CSR int32 and the true topics (n_rows,)."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(n_topics, size=n_rows)
    words = rng.integers(n_words, size=(n_topics, per_topic))
    cumulative = np.cumsum(rng.dirichlet(np.full(per_topic, 0.3), size=n_topics), axis=1)
    lengths = rng.integers(3, 9, size=n_rows)
    rows = np.repeat(np.arange(n_rows), lengths)
    of_row = cumulative[labels[rows]]
    drawn = np.minimum((of_row < rng.random(len(rows))[:, None]).sum(axis=1), per_topic - 1)
    places = rows, words[labels[rows], drawn]
    X = sparse.coo_array((np.ones(len(rows), dtype=np.int32), places), shape=(n_rows, n_words)).tocsr()
    X.sum_duplicates()
    return X, labels


def zipf_labels(n_rows, n_clusters, rng, *, exponent=1.0):
    """Cluster of each row; cluster sizes fall as rank ** -exponent, and each has a row where there are enough."""
    p = 1.0 / np.arange(1, n_clusters + 1) ** exponent
    labels = rng.choice(n_clusters, size=n_rows, p=p / p.sum())
    first = min(n_rows, n_clusters)
    labels[:first] = np.arange(first)
    return rng.permutation(labels)


def shattered(labels, n_pieces, *, seed=0):
    """Each cluster cut evenly at random into `n_pieces`: labels (n_rows,) whose merges give the clusters back."""
    rng = np.random.default_rng(seed)
    return np.asarray(labels) * n_pieces + rng.integers(n_pieces, size=len(labels))


def normalized_mutual_information(a, b):
    """Mutual information of two labelings over the mean of their entropies, in [0, 1]."""
    table = np.zeros((a.max() + 1, b.max() + 1))
    np.add.at(table, (a, b), 1.0)
    p = table / table.sum()
    rows, columns = p.sum(axis=1), p.sum(axis=0)

    def entropy(q):
        q = q[q > 0]
        return -(q * np.log(q)).sum()

    mean = (entropy(rows) + entropy(columns)) / 2
    return float((entropy(rows) + entropy(columns) - entropy(p.ravel())) / mean) if mean > 0 else 1.0


def mixture_scores(data, log_pi, Theta, G):
    """Log density of each row under a mixture of given parameters, log-base included, and its likeliest component.

    Returns (N,) float64 nats and (N,) intp. Blocks of rows: 2 MiB of scores at a time.
    """
    log_density, best = np.empty(data.n_rows), np.empty(data.n_rows, dtype=np.intp)
    step = max(1, (1 << 18) // len(log_pi))
    for start in range(0, data.n_rows, step):
        rows = slice(start, min(start + step, data.n_rows))
        phi = data.phi_csr(rows.start, rows.stop) if data.has_sparse_phi else data.phi(rows.start, rows.stop)
        scores = data.family.log_likelihood(phi, Theta, G) + log_pi
        best[rows] = scores.argmax(axis=1)
        highest = scores.max(axis=1, keepdims=True)
        log_density[rows] = np.log(np.exp(scores - highest).sum(axis=1)) + highest[:, 0]
    return log_density + data.log_base, best


def nanoseconds_per_pair(function, n_pairs, *, seconds=0.2):
    """Least time of a call over repetitions of at least 20 ms each, in ns for each datum and cluster."""
    from time import perf_counter

    function()  # first calls allocate
    n_calls, best, end = 1, float("inf"), perf_counter() + seconds
    while True:
        begin = perf_counter()
        for _ in range(n_calls):
            function()
        spent = perf_counter() - begin
        if spent < 0.02:
            n_calls = max(2 * n_calls, int(n_calls * 0.025 / max(spent, 1e-9)))
            continue
        best = min(best, spent / n_calls)
        if perf_counter() > end:
            return best * 1e9 / n_pairs

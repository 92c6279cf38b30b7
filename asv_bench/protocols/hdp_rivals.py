"""Topics of unknown number by other packages: topics, pseudo-counts of topics, number in use, and CPU seconds."""

from time import process_time

import numpy as np

_LEAST = 1e-10


def run_tomotopy(X, seed, *, n_first, n_sweeps=200):
    """Return the topics that hold tokens of tomotopy's collapsed Gibbs sampler, with their counts.

    Weights of topics are in proportion to their tokens, as far as the package tells; `n_first` is its `initial_k`.
    """
    import tomotopy

    begin = process_time()
    model = tomotopy.HDPModel(initial_k=n_first, seed=seed + 1)
    for d in range(X.shape[0]):
        words = np.repeat(X.indices[X.indptr[d] : X.indptr[d + 1]], X.data[X.indptr[d] : X.indptr[d + 1]])
        if len(words):
            model.add_doc([str(w) for w in words])
    model.train(n_sweeps, workers=1)
    spent = process_time() - begin
    live = [k for k in range(model.k) if model.is_live_topic(k)]
    words = np.array([int(word) for word in model.used_vocabs])
    topics = np.full((len(live), X.shape[1]), float(model.eta))
    topics[:, words] = [model.get_topic_word_dist(k, normalize=False) for k in live]
    sizes = np.asarray(model.get_count_by_topics(), dtype=np.float64)[live]
    return topics, np.maximum(model.alpha * sizes / sizes.sum(), _LEAST), len(live), spent


def run_gensim(X, seed):
    """Return the topics of gensim's online variational inference, of which there are always 150."""
    from gensim.models import HdpModel

    corpus = [
        list(zip(X.indices[a:b].tolist(), X.data[a:b].tolist())) for a, b in zip(X.indptr[:-1], X.indptr[1:]) if b > a
    ]
    begin = process_time()
    model = HdpModel(corpus, {v: str(v) for v in range(X.shape[1])}, random_state=seed)
    spent = process_time() - begin
    alpha, topics = model.hdp_to_lda()
    size = model.m_lambda.sum(axis=1, keepdims=True) + X.shape[1] * model.m_eta  # the weight that the words have
    return np.asarray(topics) * size, np.maximum(alpha, _LEAST), len(alpha), spent


RIVALS = {
    "tomotopy": lambda X, seed: run_tomotopy(X, seed, n_first=2),
    "tomotopy, initial_k=100": lambda X, seed: run_tomotopy(X, seed, n_first=100),
    "gensim": run_gensim,
}

"""Draws of the topics of tokens, document by document, given probabilities of words.

The weights of a document are integrated out: a token has topic k with a probability that is proportional to
(n_dk + alpha_k) phi_wk, where n_dk counts the other tokens of its document. Documents do not depend on each other, and
each has a random stream of its own, so it does not matter which of them lie together. The cost is O(K) a token.
"""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint64_t

from expfam.structures.ground.rng cimport MOVE, START, philox_aim, philox_double, philox_init, philox_stream

from expfam.amounts import counted


def draw_topics(const int64_t[::1] starts, const int32_t[::1] words, int32_t[::1] topics, const double[:, ::1] phi,
                const double[::1] alpha, uint64_t seed, uint64_t step, uint64_t first_row, bint is_first=False):
    """Draw the topics of all tokens of some documents in place; return how many changed.

    Parameters
    ----------
    starts : (D + 1,) int64 ndarray
        First token of each document.
    words, topics : (T,) int32 ndarray
        Word and topic of each token, document by document; -1 is no topic.
    phi : (V, K) float64 ndarray
        Probability of each word in each topic.
    alpha : (K,) float64 ndarray
    seed, step : int
    first_row : int
        Number of the first document among all.
    is_first : bool
        Whether the draws make the first topics of a chain, by random numbers of their own.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.samplers.topics.documents import draw_topics
    >>> topics = np.full(3, -1, dtype=np.int32)
    >>> starts, words = np.array([0, 2, 3]), np.array([0, 1, 1], dtype=np.int32)
    >>> draw_topics(starts, words, topics, np.eye(2), np.ones(2), 0, 0, 0, True), topics
    (3, array([0, 1, 1], dtype=int32))
    """
    cdef Py_ssize_t D = starts.shape[0] - 1, K = phi.shape[1], d, k
    cdef int64_t t, n_moved = 0
    cdef int32_t old
    cdef double total, aim
    cdef double[::1] mass = np.zeros(K), counts = np.zeros(K)
    cdef philox_stream rng
    if alpha.shape[0] != K or words.shape[0] != topics.shape[0] or starts[D] != words.shape[0]:
        raise ValueError(
            f"words and topics must have one entry for each of {counted(starts[D], 'token')}, alpha for each of"
            f" {counted(K, 'topic')}; got lengths {words.shape[0]}, {topics.shape[0]} and {alpha.shape[0]}"
        )
    with nogil:
        philox_init(&rng, seed, START if is_first else MOVE)
        for d in range(D):
            philox_aim(&rng, first_row + <uint64_t> d, step)
            for k in range(K):
                counts[k] = alpha[k]
            for t in range(starts[d], starts[d + 1]):
                if topics[t] >= 0:
                    counts[topics[t]] += 1.0
            for t in range(starts[d], starts[d + 1]):
                old = topics[t]
                if old >= 0:
                    counts[old] -= 1.0
                total = 0.0
                for k in range(K):
                    total += counts[k] * phi[words[t], k]
                    mass[k] = total
                aim = philox_double(&rng) * total
                k = 0
                while k < K - 1 and mass[k] <= aim:
                    k += 1
                topics[t] = <int32_t> k
                counts[k] += 1.0
                n_moved += old != k
    return n_moved

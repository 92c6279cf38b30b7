"""Draws of the topics of tokens, document by document, given probabilities of words.

The weights of a document are integrated out: a token has topic k with a probability that is proportional to
(n_dk + alpha_k) phi_wk, where n_dk counts the other tokens of its document. The part n_dk phi_wk is summed over the
list of the topics of the document; of the part alpha_k phi_wk each word has a table of sums, in which a binary search
finds the topic. So the cost of a token depends on the topics of its document, and hardly on K. Documents do not depend
on each other, and each has a random stream of its own, so it does not matter which of them lie together.

Some topics may be left out: tokens keep these, and the others are drawn given that.
"""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint64_t

from expfam.structures.ground.rng cimport MOVE, START, philox_aim, philox_double, philox_init, philox_stream

from expfam.amounts import counted


ctypedef struct document:               # counts of the open document
    double *count                       # (A,) tokens of each column of phi, 0 between documents
    int32_t *topic                      # columns that have tokens, in no order
    int32_t *place                      # (A,) where a column is in the list
    double *mass                        # sums of n_dk phi_wk over the list
    Py_ssize_t n_topics


cdef inline void add_token(document *doc, int32_t k) noexcept nogil:
    """Count a token of a column."""
    if doc.count[k] == 0.0:
        doc.topic[doc.n_topics], doc.place[k] = k, <int32_t> doc.n_topics
        doc.n_topics += 1
    doc.count[k] += 1.0


cdef inline void remove_token(document *doc, int32_t k) noexcept nogil:
    """Count a token no more; the last column of the list takes the place of one without tokens."""
    cdef int32_t last
    doc.count[k] -= 1.0
    if doc.count[k] == 0.0:
        doc.n_topics -= 1
        last = doc.topic[doc.n_topics]
        doc.topic[doc.place[k]], doc.place[last] = last, doc.place[k]


cdef inline Py_ssize_t first_above(const double *sums, Py_ssize_t n, double aim) noexcept nogil:
    """Return the first place where rising sums are above `aim`.

    Where none is, it is the first place of the last value.
    """
    cdef Py_ssize_t low = 0, high = n - 1, middle
    cdef double top = sums[n - 1]
    cdef bint is_over = aim >= top      # only by rounding
    while low < high:
        middle = (low + high) >> 1
        if sums[middle] > aim or (is_over and sums[middle] == top):
            high = middle
        else:
            low = middle + 1
    return low


cdef inline int32_t drawn_column(document *doc, const double *phi, const double *sums, Py_ssize_t A,
                                 double uniform) noexcept nogil:
    """Return the column at which masses reach a share of their sum: first the list, then all."""
    cdef Py_ssize_t i
    cdef double listed = 0.0, aim
    for i in range(doc.n_topics):
        listed += doc.count[doc.topic[i]] * phi[doc.topic[i]]
        doc.mass[i] = listed
    aim = uniform * (listed + sums[A - 1])
    if aim < listed:
        return doc.topic[first_above(doc.mass, doc.n_topics, aim)]
    return <int32_t> first_above(sums, A, aim - listed)


def draw_topics(const int64_t[::1] starts, const int32_t[::1] words, int32_t[::1] topics, const double[:, ::1] phi,
                const double[:, ::1] sums, const int32_t[::1] places, uint64_t seed, uint64_t step, uint64_t first_row,
                Py_ssize_t start, Py_ssize_t stop, bint is_first=False):
    """Draw the topics of all tokens of some documents in place; return how many changed.

    Parameters
    ----------
    starts : (D + 1,) int64 ndarray
        First token of each document.
    words, topics : (T,) int32 ndarray
        Word and topic of each token, document by document; -1 is no topic.
    phi : (V, A) float64 ndarray
        Probability of each word in the topics that take part.
    sums : (V, A) float64 ndarray
        Sums of alpha_k phi_wk over these topics up to each one.
    places : (K,) int32 ndarray
        Column of each topic, in order; -1 is a topic that does not take part: its tokens stay as they are.
    seed, step : int
    first_row : int
        Number of the first of the D documents among all.
    start, stop : int
        The documents start..stop-1 of these are drawn.
    is_first : bool
        Whether the draws make the first topics of a chain, by random numbers of their own.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.samplers.topics.documents import draw_topics
    >>> topics, phi, places = np.full(3, -1, dtype=np.int32), np.eye(2), np.arange(2, dtype=np.int32)
    >>> starts, words = np.array([0, 2, 3]), np.array([0, 1, 1], dtype=np.int32)
    >>> draw_topics(starts, words, topics, phi, np.cumsum(phi, axis=1), places, 0, 0, 0, 0, 2, True), topics
    (3, array([0, 1, 1], dtype=int32))
    """
    cdef Py_ssize_t D = starts.shape[0] - 1, A = phi.shape[1], d, i
    cdef int64_t t, n_moved = 0
    cdef int32_t old, new
    cdef document doc
    cdef const int32_t[::1] slots = np.flatnonzero(np.asarray(places) >= 0).astype(np.int32)
    cdef double[::1] count = np.zeros(A), mass = np.empty(A)
    cdef int32_t[::1] listed = np.empty(A, dtype=np.int32), place = np.empty(A, dtype=np.int32)
    cdef philox_stream rng
    if words.shape[0] != topics.shape[0] or starts[D] != words.shape[0] or not 0 <= start <= stop <= D:
        raise ValueError(
            f"words and topics must have one entry for each of {counted(starts[D], 'token')}, and documents"
            f" lie in 0..{D}; got lengths {words.shape[0]} and {topics.shape[0]}, documents {start} to {stop}"
        )
    if sums.shape[0] != phi.shape[0] or sums.shape[1] != A or slots.shape[0] != A or not A:
        raise ValueError(
            f"sums must have the shape ({phi.shape[0]}, {A}) of phi, and {counted(A, 'topic')} must take part; got"
            f" ({sums.shape[0]}, {sums.shape[1]}) and {slots.shape[0]}"
        )
    doc.count, doc.mass, doc.topic, doc.place, doc.n_topics = &count[0], &mass[0], &listed[0], &place[0], 0
    with nogil:
        philox_init(&rng, seed, START if is_first else MOVE)
        for d in range(start, stop):
            philox_aim(&rng, first_row + <uint64_t> d, step)
            for t in range(starts[d], starts[d + 1]):
                if topics[t] >= 0 and places[topics[t]] >= 0:
                    add_token(&doc, places[topics[t]])
            for t in range(starts[d], starts[d + 1]):
                old = topics[t]
                if old >= 0:
                    if places[old] < 0:
                        continue
                    remove_token(&doc, places[old])
                new = drawn_column(&doc, &phi[words[t], 0], &sums[words[t], 0], A, philox_double(&rng))
                add_token(&doc, new)
                topics[t] = slots[new]
                n_moved += old != topics[t]
            for i in range(doc.n_topics):
                count[listed[i]] = 0.0
            doc.n_topics = 0
    return n_moved


def count_words(const int32_t[::1] words, const int32_t[::1] topics, int64_t[:, ::1] counts):
    """Add the tokens of each word in each topic to `counts`.

    Parameters
    ----------
    words, topics : (T,) int32 ndarray
        Word and topic of each token.
    counts : (V, K) int64 ndarray

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.samplers.topics.documents import count_words
    >>> counts = np.zeros((2, 2), dtype=np.int64)
    >>> count_words(np.array([0, 1, 1], dtype=np.int32), np.array([1, 0, 0], dtype=np.int32), counts)
    >>> counts.tolist()
    [[0, 1], [2, 0]]
    """
    cdef Py_ssize_t t
    with nogil:
        for t in range(words.shape[0]):
            counts[words[t], topics[t]] += 1


def document_keys(const int64_t[::1] starts, const int32_t[::1] topics, Py_ssize_t n_topics, int64_t width):
    """Return topic * width + number of its tokens for each topic of each document.

    Parameters
    ----------
    starts : (D + 1,) int64 ndarray
        First token of each document.
    topics : (T,) int32 ndarray
        Topic of each token, document by document.
    n_topics : int
        K, above all topics.
    width : int
        Above the tokens of every document.

    Returns
    -------
    (P,) int64 ndarray
        By document.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.samplers.topics.documents import document_keys
    >>> document_keys(np.array([0, 3, 4]), np.array([0, 1, 1, 1], dtype=np.int32), 2, 10)
    array([ 1, 12, 11])
    """
    cdef Py_ssize_t d, i, n, n_keys = 0
    cdef int64_t t
    cdef int64_t[::1] count = np.zeros(n_topics, dtype=np.int64), keys
    cdef int32_t[::1] listed = np.empty(n_topics, dtype=np.int32)
    found = np.empty(topics.shape[0], dtype=np.int64)
    keys = found
    with nogil:
        for d in range(starts.shape[0] - 1):
            n = 0
            for t in range(starts[d], starts[d + 1]):
                if count[topics[t]] == 0:
                    listed[n] = topics[t]
                    n += 1
                count[topics[t]] += 1
            for i in range(n):
                keys[n_keys] = listed[i] * width + count[listed[i]]
                count[listed[i]] = 0
                n_keys += 1
    return found[:n_keys]

"""Exact Gibbs sweeps over the topics of tokens, word by word.

Tokens are sorted by word. During the sweep over a word its probabilities q_k = (n_wk + eta) / (n_k + V eta) are a dense
array in cache, with sums of alpha_k q_k over blocks and over blocks of blocks; a document is a short list of
(topic, count). The conditional of a token has two parts: sum_k n_dk q_k over the document's list, and
sum_k alpha_k q_k, of which only the entries of changed topics are updated. The cost is O(topics of the document) a
token and O(K) a word, so the time of a token hardly depends on K.

Where the number of topics is unknown, one topic without tokens stands for all topics that are not listed. A token that
is drawn to it makes it a topic, which takes a share of the weight of the rest; the next free topic stands for the rest.
"""

import numpy as np
from scipy import sparse

from libc.math cimport exp, expm1, log1p
from libc.stdint cimport int32_t, int64_t, uint64_t

from expfam.structures.simd.prefetch cimport expfam_prefetch
from expfam.structures.ground.rng cimport MOVE, philox_aim, philox_double, philox_init, philox_stream

cdef enum:
    BLOCK = 16                          # topics of a block, and blocks of a group
    GROUP = 256
    AHEAD = 8                           # the document of the token this far ahead is loaded into the cache


ctypedef struct chain:                  # pointers to the arrays of a state
    const int64_t *word_start           # (V + 1,) tokens of each word
    const int32_t *doc                  # (T,) document of each token
    int32_t *topic                      # (T,)
    const int64_t *list_start           # (D + 1,) start of each document's list
    int32_t *list_size                  # (D,)
    int32_t *list_topic                 # topics of a document, in no order
    int32_t *list_count
    int64_t *topic_size                 # (K,) tokens of each topic
    double *alpha                       # (K,) changed only where the number of topics is unknown
    const double *etas                  # (V,)
    double eta                          # pseudo-count of the open word
    const double *strength              # (K,) sum of eta and of the seeds of each topic
    const int32_t *seed_start           # (V + 1,) seeds of each word
    const int32_t *seed_topic
    const int32_t *seed_count
    Py_ssize_t n_topics
    Py_ssize_t rest                     # topic that stands for all topics not listed; -1 where K is given
    const int32_t *free                 # topics without tokens and weight; the last of the first n_free is next
    Py_ssize_t n_free
    double gamma
    # scratch
    double *rate                        # (K,) 1 / (n_k + V eta)
    int32_t *count                      # (K,) n_wk of the open word, 0 between words
    double *q                           # (K,)
    double *leaf                        # (K padded,) alpha_k q_k
    double *block
    double *group
    double total


cdef void fill_rates(chain *c) noexcept nogil:
    cdef Py_ssize_t k
    for k in range(c.n_topics):
        c.rate[k] = 1.0 / (c.topic_size[k] + c.strength[k])


cdef inline void count_word(chain *c, Py_ssize_t w) noexcept nogil:
    """Count the tokens of a word in each topic; `count` must be 0 before.

    Tokens that have no topic yet are left out.
    """
    cdef int64_t t
    cdef int32_t *count = c.count
    for t in range(c.word_start[w], c.word_start[w + 1]):
        if c.topic[t] >= 0:
            count[c.topic[t]] += 1


cdef inline void add_seeds(chain *c, Py_ssize_t w, int32_t sign) noexcept nogil:
    """Add the seeds of a word to its counts, or take them away (sign -1)."""
    cdef Py_ssize_t j
    for j in range(c.seed_start[w], c.seed_start[w + 1]):
        c.count[c.seed_topic[j]] += sign * c.seed_count[j]


cdef void open_word(chain *c, Py_ssize_t w) noexcept nogil:
    """Compute the probabilities of a word in all topics, and their sums."""
    cdef Py_ssize_t k, b, g, K = c.n_topics, n_blocks = (K + BLOCK - 1) // BLOCK
    cdef Py_ssize_t n_groups = (n_blocks + BLOCK - 1) // BLOCK
    cdef double *q = c.q
    cdef double *leaf = c.leaf
    cdef double *block = c.block
    cdef double *group = c.group
    cdef const double *alpha = c.alpha
    cdef const double *rate = c.rate
    cdef int32_t *count = c.count
    cdef double eta = c.etas[w], total = 0.0, part
    c.eta = eta
    count_word(c, w)
    add_seeds(c, w, 1)
    for k in range(K):
        q[k] = (count[k] + eta) * rate[k]
        leaf[k] = alpha[k] * q[k]
    for b in range(n_blocks):           # the leaves past K are 0
        part = 0.0
        for k in range(b * BLOCK, (b + 1) * BLOCK):
            part += leaf[k]
        block[b] = part
    for g in range(n_groups):
        part = 0.0
        for b in range(g * BLOCK, (g + 1) * BLOCK):
            part += block[b]
        group[g] = part
        total += part
    c.total = total


cdef void close_word(chain *c, Py_ssize_t w, int64_t *histogram) noexcept nogil:
    """Set the word's counts to 0; add each positive count to the histogram if there is one."""
    cdef int64_t t
    cdef int32_t k
    cdef int32_t *count = c.count
    for t in range(c.word_start[w], c.word_start[w + 1]):
        k = c.topic[t]
        if count[k]:
            if histogram != NULL:
                histogram[count[k]] += 1
            count[k] = 0


cdef Py_ssize_t list_counts(chain *c, Py_ssize_t w, int32_t *topics, int64_t *counts) noexcept nogil:
    """Return the number of topics of a word.

    Unless `topics` is NULL, write the topics and the word's tokens in each to the two arrays.
    """
    cdef int64_t t
    cdef int32_t k
    cdef Py_ssize_t n = 0
    cdef int32_t *count = c.count
    count_word(c, w)
    for t in range(c.word_start[w], c.word_start[w + 1]):
        k = c.topic[t]
        if count[k]:
            if topics != NULL:
                topics[n], counts[n] = k, count[k]
            n += 1
            count[k] = 0
    return n


cdef inline void set_topic(chain *c, Py_ssize_t k) noexcept nogil:
    """Update probabilities and sums after the counts of one topic have changed."""
    cdef double rate = 1.0 / (c.topic_size[k] + c.strength[k]), fresh, change
    cdef double *q = c.q
    cdef double *leaf = c.leaf
    cdef double *block = c.block
    cdef double *group = c.group
    cdef double *rates = c.rate
    rates[k] = rate
    q[k] = (c.count[k] + c.eta) * rate
    fresh = c.alpha[k] * q[k]
    change = fresh - leaf[k]
    leaf[k] = fresh
    block[k // BLOCK] += change
    group[k // GROUP] += change
    c.total += change


cdef inline Py_ssize_t pick_leaf(const chain *c, double rest) noexcept nogil:
    """Return the topic k at which the cumulative sums of alpha_k q_k exceed `rest`.

    The search goes down from groups to blocks to topics. Where rounding leaves a rest, it returns the last topic of the
    block, or if that has no weight the topic that stands for all topics not listed.
    """
    cdef Py_ssize_t g = 0, b, k, K = c.n_topics
    cdef Py_ssize_t last_group = (K - 1) // GROUP, last_block, last
    while g < last_group and rest >= c.group[g]:
        rest -= c.group[g]
        g += 1
    b = g * BLOCK
    last_block = min((K - 1) // BLOCK, b + BLOCK - 1)
    while b < last_block and rest >= c.block[b]:
        rest -= c.block[b]
        b += 1
    k = b * BLOCK
    last = min(K - 1, k + BLOCK - 1)
    while k < last and rest >= c.leaf[k]:
        rest -= c.leaf[k]
        k += 1
    return k if c.alpha[k] > 0.0 else c.rest


cdef inline void break_stick(chain *c, double uniform) noexcept nogil:
    """Give the topic of the rest a Beta(1, gamma) share; a free topic gets what is left."""
    cdef Py_ssize_t k = c.rest
    cdef double whole = c.alpha[k], log_left = log1p(-uniform) / c.gamma
    c.n_free -= 1
    c.rest = c.free[c.n_free]
    c.alpha[k] = -whole * expm1(log_left)
    c.alpha[c.rest] = whole * exp(log_left)
    set_topic(c, k)
    set_topic(c, c.rest)


cdef inline bint redraw(chain *c, int64_t t, double uniform) noexcept nogil:
    """Draw the topic of one token of the open word given all others; return whether it changed."""
    cdef Py_ssize_t old = c.topic[t], d = c.doc[t], new, j, own = 0, at
    cdef Py_ssize_t size = c.list_size[d]
    cdef int32_t *topics = c.list_topic + c.list_start[d]
    cdef int32_t *counts = c.list_count + c.list_start[d]
    cdef const double *q = c.q
    cdef double without = (c.count[old] - 1 + c.eta) / (c.topic_size[old] - 1 + c.strength[old])
    cdef double here = 0.0, odd = 0.0, rest, rest_of_all, mass
    # Two sums in parallel without vector instructions: gathered loads are slower than single ones on many processors.
    for j in range(1, size, 2):
        here += counts[j - 1] * q[topics[j - 1]]
        odd += counts[j] * q[topics[j]]
        own = j - 1 if topics[j - 1] == old else own
        own = j if topics[j] == old else own
    if size & 1:
        here += counts[size - 1] * q[topics[size - 1]]
        own = size - 1 if topics[size - 1] == old else own
    here += odd
    mass = (counts[own] - 1) * without
    here = here - counts[own] * q[old] + mass if size > 1 else mass
    rest_of_all = c.total + c.alpha[old] * (without - q[old])
    rest = uniform * (here + rest_of_all)
    if rest < here:
        at = 0
        while True:
            rest -= mass if at == own else counts[at] * q[topics[at]]
            if rest < 0.0 or at == size - 1:
                break
            at += 1
        new = topics[at]
        if new == old:
            return False
    else:
        at = -1
    c.count[old] -= 1
    c.topic_size[old] -= 1
    set_topic(c, old)
    if at < 0:
        new = pick_leaf(c, rest - here)
        for j in range(size):
            at = j if topics[j] == new else at
    c.count[new] += 1
    c.topic_size[new] += 1
    set_topic(c, new)
    if new == old:
        return False
    if at < 0:
        if counts[own] == 1:            # the place of the old topic becomes free for the new one
            topics[own] = <int32_t> new
        else:
            counts[own] -= 1
            topics[size], counts[size] = <int32_t> new, 1
            c.list_size[d] = <int32_t> (size + 1)
    else:
        counts[at] += 1
        counts[own] -= 1
        if counts[own] == 0:
            topics[own], counts[own] = topics[size - 1], counts[size - 1]
            c.list_size[d] = <int32_t> (size - 1)
    c.topic[t] = <int32_t> new
    return True


cdef inline void place(chain *c, int64_t t, double uniform) noexcept nogil:
    """Draw the first topic of a token of the open word, given all tokens that have a topic."""
    cdef Py_ssize_t d = c.doc[t], j, size = c.list_size[d]
    cdef int32_t *topics = c.list_topic + c.list_start[d]
    cdef int32_t *counts = c.list_count + c.list_start[d]
    cdef Py_ssize_t new = -1
    cdef double rest = 0.0
    for j in range(size):
        rest += counts[j] * c.q[topics[j]]
    rest = uniform * (rest + c.total)
    for j in range(size):
        rest -= counts[j] * c.q[topics[j]]
        if rest < 0.0:
            new = topics[j]
            break
    if new < 0:
        new = pick_leaf(c, rest)
    for j in range(size):
        if topics[j] == new:
            counts[j] += 1
            break
    else:
        topics[size], counts[size] = <int32_t> new, 1
        c.list_size[d] = <int32_t> (size + 1)
    c.topic[t] = <int32_t> new
    c.count[new] += 1
    c.topic_size[new] += 1
    set_topic(c, new)


cdef int64_t sweep_words(chain *c, Py_ssize_t start, Py_ssize_t stop, uint64_t seed, uint64_t step, bint backward,
                         int64_t *histogram) noexcept nogil:
    """Redraw the topics of all tokens of some words; return how many of them changed.

    Tokens without a topic get their first one. `backward` goes from the last token to the first.
    """
    cdef philox_stream rng
    cdef Py_ssize_t i, w
    cdef int64_t t, at, ahead, n, n_moved = 0, first = c.word_start[start], last = c.word_start[stop]
    cdef int64_t turn = -1 if backward else 1
    cdef int32_t d
    philox_init(&rng, seed, MOVE)
    for i in range(start, stop):
        w = start + stop - 1 - i if backward else i
        n = c.word_start[w + 1] - c.word_start[w]
        if n == 0:
            continue
        philox_aim(&rng, <uint64_t> w, step)
        open_word(c, w)
        for at in range(n):
            t = c.word_start[w + 1] - 1 - at if backward else c.word_start[w] + at
            ahead = t + turn * <int64_t> AHEAD
            if first <= ahead < last:
                d = c.doc[ahead]
                expfam_prefetch(c.list_topic + c.list_start[d], 4 * c.list_size[d])
                expfam_prefetch(c.list_count + c.list_start[d], 4 * c.list_size[d])
            if c.topic[t] >= 0:
                n_moved += redraw(c, t, philox_double(&rng))
            else:
                place(c, t, philox_double(&rng))
                n_moved += 1
        add_seeds(c, w, -1)
        close_word(c, w, histogram)
    return n_moved


cdef int64_t sweep_open(chain *c, philox_stream *rng, int64_t first, Py_ssize_t stop, uint64_t seed, uint64_t step,
                        int64_t *histogram, int64_t *n_moved) noexcept nogil:
    """Redraw the topics of all tokens from `first` up to the word `stop`; new topics may begin.

    Return the first token that was not drawn: where no topic is free for the rest, the sweep stops before it, and goes
    on with the same random stream when it is called again.
    """
    cdef Py_ssize_t w = 0
    cdef int64_t t = first, last = c.word_start[stop]
    cdef int32_t d
    while t < last:
        while c.word_start[w + 1] <= t:
            w += 1
        if t == c.word_start[w]:
            philox_init(rng, seed, MOVE)
            philox_aim(rng, <uint64_t> w, step)
        open_word(c, w)
        while t < c.word_start[w + 1] and c.n_free > 0:
            if t + <int64_t> AHEAD < last:
                d = c.doc[t + AHEAD]
                expfam_prefetch(c.list_topic + c.list_start[d], 4 * c.list_size[d])
                expfam_prefetch(c.list_count + c.list_start[d], 4 * c.list_size[d])
            n_moved[0] += redraw(c, t, philox_double(rng))
            if c.topic[t] == c.rest:
                break_stick(c, philox_double(rng))
            t += 1
        add_seeds(c, w, -1)
        if t < c.word_start[w + 1]:
            close_word(c, w, NULL)
            return t
        close_word(c, w, histogram)
    return last


cdef class TokenTopics:
    """Topics of the tokens of documents, and the counts that a sweep reads and changes.

    X (D, V) CSR holds whole counts of words in documents. A document has room for `room` topics, by default K. `seeds`
    (V, K) CSR of int32, or None, are further counts of words in topics, which belong to no document and stay the same.

    Attributes
    ----------
    word_start : (V + 1,) int64 ndarray
        First token of each word; tokens are sorted by word, and within a word by document.
    doc, topic : (T,) int32 ndarray
        Document and topic of each token; the topic is -1 before it is drawn. After changes of `topic` call
        `count_topics`.
    list_start, list_size : (D + 1,) int64 and (D,) int32 ndarrays
        Where the list of topics of each document starts, and how many it has.
    list_topic, list_count : int32 ndarray
        Topics of a document and their numbers of tokens, in the first `list_size` places from `list_start`.
    topic_size : (K,) int64 ndarray
        Tokens of each topic.
    """

    # The pointers of `c` point to these arrays: the arrays are filled, never replaced.
    cdef readonly object word_start, doc, topic, list_start, list_size, list_topic, list_count, topic_size
    cdef readonly Py_ssize_t n_topics, n_words, n_docs, n_tokens
    cdef object work, count, seeds, seed_totals, strength
    cdef chain c
    cdef philox_stream rng              # of the open word of a sweep that stopped within it

    def __init__(self, X, Py_ssize_t n_topics, seeds=None, room=None):
        cdef int64_t[::1] word_start, list_start
        cdef int32_t[::1] doc, topic, list_size, list_topic, list_count
        self.n_docs, self.n_words = X.shape
        columns = X.tocsc()
        columns.sort_indices()
        repeats = columns.data.astype(np.int64)
        self.doc = np.repeat(columns.indices.astype(np.int32), repeats)
        self.n_tokens = len(self.doc)
        ends = np.concatenate([[0], np.cumsum(repeats)])
        self.word_start = ends[columns.indptr].astype(np.int64)
        lengths = np.bincount(self.doc, minlength=self.n_docs)
        self.list_start = np.concatenate([[0], np.cumsum(np.minimum(lengths, room or n_topics))]).astype(np.int64)
        places = int(self.list_start[self.n_docs]) + 1
        self.list_size = np.zeros(self.n_docs, dtype=np.int32)
        self.list_topic, self.list_count = np.zeros((2, places), dtype=np.int32)
        self.topic = np.zeros(self.n_tokens, dtype=np.int32)
        word_start, list_start = self.word_start, self.list_start
        doc, topic, list_size = self.doc, self.topic, self.list_size
        list_topic, list_count = self.list_topic, self.list_count
        cdef chain *c = &self.c
        c.word_start, c.list_start, c.list_size = &word_start[0], &list_start[0], &list_size[0]
        c.list_topic, c.list_count = &list_topic[0], &list_count[0]
        if self.n_tokens:
            c.doc, c.topic = &doc[0], &topic[0]
        self.allocate(n_topics)
        self.hold_seeds(seeds)

    cdef void allocate(self, Py_ssize_t n_topics):
        """Make the arrays of topics, without tokens, and those of one word."""
        cdef int64_t[::1] topic_size
        cdef int32_t[::1] count
        cdef double[:, ::1] work
        cdef chain *c = &self.c
        self.topic_size = np.zeros(n_topics, dtype=np.int64)
        padded = (n_topics + GROUP - 1) // GROUP * GROUP
        self.work, self.count = np.zeros((5, padded)), np.zeros(padded, dtype=np.int32)
        topic_size, count, work = self.topic_size, self.count, self.work
        c.topic_size, c.count = &topic_size[0], &count[0]
        c.rate, c.q, c.leaf, c.block, c.group = &work[0, 0], &work[1, 0], &work[2, 0], &work[3, 0], &work[4, 0]
        self.n_topics = c.n_topics = n_topics

    def resize(self, Py_ssize_t n_topics):
        """Change the number of topics; topics from `n_topics` on hold no tokens and no seeds."""
        sizes, totals = self.topic_size, self.seed_totals
        kept = min(n_topics, self.n_topics)
        self.allocate(n_topics)
        self.topic_size[:kept] = sizes[:kept]
        self.seed_totals = np.zeros(n_topics)
        self.seed_totals[:kept] = totals[:kept]

    def renumber(self, places):
        """Give topic k the number places[k]; topics with tokens get different numbers."""
        held = np.flatnonzero(self.topic_size)
        sizes = self.topic_size[held]
        self.topic[:] = places[self.topic]
        self.list_topic[:] = places[self.list_topic]
        self.topic_size[:] = 0
        self.topic_size[places[held]] = sizes

    cdef void hold_seeds(self, seeds):
        found = sparse.csr_array((self.n_words, self.n_topics), dtype=np.int32) if seeds is None else seeds
        totals = np.asarray(found.sum(axis=0), dtype=np.float64).ravel()
        # one place more: the address of the first is needed where there is none
        self.seeds = tuple(np.append(part, 0).astype(np.int32) for part in (found.indptr, found.indices, found.data))
        self.seed_totals, self.strength = totals, np.zeros(self.n_topics)
        cdef int32_t[::1] start = self.seeds[0], topic = self.seeds[1], count = self.seeds[2]
        self.c.seed_start, self.c.seed_topic, self.c.seed_count = &start[0], &topic[0], &count[0]

    def count_topics(self):
        """Recompute the counts of documents and topics from `topic`."""
        cdef int64_t t
        cdef Py_ssize_t j
        cdef int32_t d, k
        self.list_size[:] = 0
        self.topic_size[:] = 0
        cdef chain *c = &self.c
        for t in range(self.n_tokens):
            d, k = c.doc[t], c.topic[t]
            if k < 0:
                continue
            c.topic_size[k] += 1
            for j in range(c.list_start[d], c.list_start[d] + c.list_size[d]):
                if c.list_topic[j] == k:
                    c.list_count[j] += 1
                    break
            else:
                j = c.list_start[d] + c.list_size[d]
                c.list_topic[j], c.list_count[j] = k, 1
                c.list_size[d] += 1

    cdef void prepare(self, const double[::1] alpha, const double[::1] eta):
        cdef chain *c = &self.c
        self.strength = self.seed_totals + np.sum(eta)
        cdef double[::1] strength = self.strength
        c.alpha, c.etas, c.strength = <double *> &alpha[0], &eta[0], &strength[0]
        c.rest, c.n_free = -1, 0
        fill_rates(c)

    def sweep(self, const double[::1] alpha, const double[::1] eta, Py_ssize_t start, Py_ssize_t stop, uint64_t seed,
              uint64_t step, int64_t[::1] histogram, bint backward=False):
        """Redraw the topics of all tokens of the words start..stop-1; return how many changed.

        Tokens without a topic get their first one. `seed` and `step` are keys of the random streams; each word has its
        own stream. Each positive count of one of these words in a topic adds 1 at its place in `histogram` (T + 1,).
        With `backward` the tokens are visited from the last one to the first.
        """
        cdef int64_t n_moved
        cdef chain *c = &self.c
        self.prepare(alpha, eta)
        with nogil:
            n_moved = sweep_words(c, start, stop, seed, step, backward, &histogram[0])
        return n_moved

    def sweep_open(self, double[::1] alpha, const double[::1] eta, int64_t first, Py_ssize_t stop, uint64_t seed,
                   uint64_t step, int64_t[::1] histogram, Py_ssize_t rest, const int32_t[::1] free, Py_ssize_t n_free,
                   double gamma):
        """Redraw the topics of all tokens from `first` up to the word `stop`; new topics may begin.

        `alpha` (K,) are the pseudo-counts of the topics; that of the topic `rest` is shared by all topics not listed,
        those of free topics are 0. They are changed where a topic begins: it is the one that stood for the rest, and
        the last of the first `n_free` of `free` (K,) int32 takes its place. The other arguments are those of `sweep`.

        Return the first token that was not drawn, the number of topics that changed, `rest`, and `n_free`. Where no
        topic is free the sweep stops early; call it again with more topics, for the same state, seed and step.
        """
        cdef int64_t at, n_moved = 0
        cdef chain *c = &self.c
        self.prepare(alpha, eta)
        c.rest, c.free, c.n_free, c.gamma = rest, &free[0], n_free, gamma
        with nogil:
            at = sweep_open(c, &self.rng, first, stop, seed, step, &histogram[0], &n_moved)
        return at, n_moved, c.rest, c.n_free

    def draws(self, const double[::1] alpha, const double[::1] eta, int64_t token, const double[::1] uniforms):
        """Draw the topic of one token from each of some uniform numbers, at the present state.

        These are the topics (m,) that a sweep would draw from `uniforms` (m,) in [0, 1); the state stays the same.
        """
        cdef Py_ssize_t w = np.searchsorted(self.word_start, token, side="right") - 1, i
        cdef chain *c = &self.c
        cdef int32_t old = c.topic[token]
        cdef int64_t[::1] histogram = np.zeros(self.n_tokens + 1, dtype=np.int64)
        found = np.empty(uniforms.shape[0], dtype=np.int32)
        cdef int32_t[::1] out = found
        for i in range(uniforms.shape[0]):
            self.prepare(alpha, eta)
            open_word(c, w)
            redraw(c, token, uniforms[i])
            add_seeds(c, w, -1)
            close_word(c, w, &histogram[0])
            out[i] = c.topic[token]
            if out[i] != old:
                c.topic[token] = old
                self.count_topics()
        return found

    def list_keys(self, int64_t width):
        """Return topic * width + count of all entries of all documents' lists: (M,) int64."""
        keys = np.empty(int(self.list_size.sum()), dtype=np.int64)
        cdef int64_t[::1] out = keys
        cdef Py_ssize_t d, j, n = 0
        cdef chain *c = &self.c
        with nogil:
            for d in range(self.n_docs):
                for j in range(c.list_start[d], c.list_start[d] + c.list_size[d]):
                    out[n] = width * c.list_topic[j] + c.list_count[j]
                    n += 1
        return keys

    def document_topics(self):
        """Return the counts of topics in documents: CSR (D, K) int32, sorted."""
        sizes = self.list_size.astype(np.int64)
        ends = np.cumsum(sizes)
        used = np.arange(int(sizes.sum())) + np.repeat(self.list_start[: self.n_docs] - ends + sizes, sizes)
        indptr = np.concatenate([[0], ends])
        shape = (self.n_docs, self.n_topics)
        found = sparse.csr_array((self.list_count[used], self.list_topic[used], indptr), shape=shape)
        found.sort_indices()
        return found

    def count_words(self, int64_t[::1] histogram):
        """Add to `histogram` (T + 1,) how often each positive count of a word in a topic occurs."""
        cdef Py_ssize_t w
        cdef chain *c = &self.c
        with nogil:
            for w in range(self.n_words):
                count_word(c, w)
                close_word(c, w, &histogram[0])

    def word_topics(self):
        """Return the counts of words in topics: CSR (V, K) int64, sorted."""
        starts = np.zeros(self.n_words + 1, dtype=np.int64)
        cdef int64_t[::1] start = starts
        cdef Py_ssize_t w, n
        cdef chain *c = &self.c
        with nogil:
            for w in range(self.n_words):
                start[w + 1] = start[w] + list_counts(c, w, NULL, NULL)
        n = start[self.n_words]
        topics, counts = np.empty(n + 1, dtype=np.int32), np.empty(n + 1, dtype=np.int64)
        cdef int32_t[::1] topic = topics
        cdef int64_t[::1] count = counts
        with nogil:
            for w in range(self.n_words):
                list_counts(c, w, &topic[start[w]], &count[start[w]])
        found = sparse.csr_array((counts[:n], topics[:n], starts), shape=(self.n_words, self.n_topics))
        found.sort_indices()
        return found

    def add_word_topics(self, double[:, ::1] total):
        """Add the counts of words in topics to `total` (V, K)."""
        cdef Py_ssize_t w
        cdef int64_t t
        cdef chain *c = &self.c
        with nogil:
            for w in range(self.n_words):
                for t in range(c.word_start[w], c.word_start[w + 1]):
                    total[w, c.topic[t]] += 1.0

"""Splits and merges of topics whose number is unknown.

Two tokens, the anchors, are drawn without a look at topics. Where both are in one topic, its other tokens are divided
between them; where they are in two, the topics become one. Tokens are visited document by document, those of the
anchors' documents first: document g has weights of the two sides from its tokens so far, and

    p(side s) is proportional to (n_gs + alpha beta m_s / m) (n_sw + eta_w) / (n_s + sum eta),

where beta is the weight of both sides together and m_s is one half more than the documents that side s has so far.
After all tokens, the share b of one side in beta is drawn from Beta(documents of one side, documents of the other). A
merge needs the probability with which the same routine would have made the two topics: the same code scores given
sides.

A known topic is the side of the first anchor, and stays. Its seeds are further tokens of that side, and the density of
its weight lacks the factor that those of other topics have.
"""

import numpy as np

from libc.math cimport lgamma, log, log1p
from libc.stdint cimport int8_t, int32_t, int64_t, uint64_t

from expfam.structures.ground.rng cimport MOVE, philox_aim, philox_double, philox_init, philox_stream

cdef enum:
    SHORT = 24                          # factors that are multiplied, not taken from lgamma

cdef double TINY = 1e-100               # products of probabilities below it become logs
cdef double HALF = 0.5                  # documents of a side before it has any


cdef inline double log_rising(double a, int64_t n) noexcept nogil:
    """Return log of a (a + 1) ... (a + n - 1)."""
    cdef double product = 1.0
    cdef int64_t j
    if n <= 0:
        return 0.0
    if n > SHORT or a < 1e-8:
        return lgamma(a + n) - lgamma(a)
    for j in range(n):
        product *= a + j
    return log(product)


cdef class TopicMoves:
    """Proposals of splits and merges for the topics of the tokens of one state.

    `tokens` are a `TokenTopics`; `rank` (D,) int32 are the places of the documents in the order in which they are
    visited; `eta` (V,) are the pseudo-counts of words.
    """

    cdef Py_ssize_t first_item, end_item    # where the tokens of the last proposal are in `items`
    cdef Py_ssize_t room                    # tokens of the longest document, and one
    cdef readonly object document_start     # (D + 1,) first token of each document in `by_document`, in their order
    cdef readonly object by_document        # (T,) tokens by document
    cdef object tokens, held
    cdef const int32_t[::1] doc, word, rank
    cdef const double[::1] eta
    cdef const int64_t[::1] start
    cdef int32_t[::1] by_rank               # tokens by document
    cdef int32_t[::1] by_topic              # places in `by_rank` by topic, ascending within a topic
    cdef int32_t[::1] topic, items, front, touched
    cdef int32_t[:, ::1] count, docs        # words and documents by side
    cdef int8_t[::1] side
    cdef const int64_t[::1] list_start
    cdef int32_t[::1] list_size, list_topic, list_count
    cdef int64_t[::1] topic_size
    cdef double[::1] seeds              # of the words on the side of the first anchor
    cdef bint is_known                  # whether that side is a known topic
    cdef double eta_sum, log_q, seed_sum
    cdef Py_ssize_t n_touched, n_docs
    cdef int64_t[2] size, n_side_docs       # tokens and documents of the sides
    cdef int32_t[2] anchor

    def __init__(self, tokens, const int32_t[::1] rank, const double[::1] eta):
        cdef Py_ssize_t j
        T, V, D = tokens.n_tokens, tokens.n_words, tokens.n_docs
        self.tokens, self.rank, self.eta, self.eta_sum = tokens, rank, eta, np.sum(eta)
        self.word = np.repeat(np.arange(V, dtype=np.int32), np.diff(tokens.word_start))
        self.doc, self.topic = tokens.doc, tokens.topic
        self.list_start, self.list_size = tokens.list_start, tokens.list_size
        self.list_topic, self.list_count = tokens.list_topic, tokens.list_count
        self.by_document = np.empty(T, dtype=np.int32)
        self.by_rank, self.by_topic = self.by_document, np.empty(T, dtype=np.int32)
        cdef int64_t[::1] place = np.zeros(D + 1, dtype=np.int64)
        for j in range(T):
            place[self.rank[self.doc[j]] + 1] += 1
        self.document_start = np.cumsum(place)
        place = self.document_start.copy()
        for j in range(T):
            self.by_rank[place[self.rank[self.doc[j]]]] = <int32_t> j
            place[self.rank[self.doc[j]]] += 1
        self.room = 1 + int(np.diff(tokens.list_start).max(initial=0))
        self.front, self.items = np.empty(2 * self.room, dtype=np.int32), np.empty(T + 2 * self.room, dtype=np.int32)
        self.side = np.empty(T + 2 * self.room, dtype=np.int8)
        self.count, self.touched = np.zeros((2, V), dtype=np.int32), np.empty(V, dtype=np.int32)
        self.docs = np.empty((D + 1, 2), dtype=np.int32)
        self.seeds, self.seed_sum, self.is_known = np.zeros(V), 0.0, False
        self.sort()

    @property
    def sizes(self):
        """Tokens of the last proposal on the sides of the first and of the second anchor."""
        second = int(np.sum(self.side[self.first_item : self.end_item]))
        return self.end_item - self.first_item - second, second

    def sort(self):
        """List the tokens of each topic, by the present topics; the number of topics may be another."""
        cdef Py_ssize_t j
        cdef int32_t k
        self.held = np.concatenate([[0], np.cumsum(self.tokens.topic_size)]).astype(np.int64)
        self.start, self.topic_size = self.held, self.tokens.topic_size
        cdef int64_t[::1] place = self.held.copy()
        with nogil:
            for j in range(self.by_rank.shape[0]):
                k = self.topic[self.by_rank[j]]
                self.by_topic[place[k]] = <int32_t> j
                place[k] += 1

    def know(self, words, seeds):
        """Say that the topic of the first anchor is known, with seeds of some words."""
        self.leave()
        held = np.zeros(self.eta.shape[0])
        held[words] = seeds
        self.seeds, self.seed_sum, self.is_known = held, held.sum(), True

    def leave(self):
        """Say that no topic of the next moves is known."""
        if self.is_known:
            self.seeds, self.seed_sum, self.is_known = np.zeros(self.eta.shape[0]), 0.0, False

    def size_of(self, Py_ssize_t u, Py_ssize_t v):
        """Return the number of tokens in the topics of two tokens."""
        cdef Py_ssize_t a = self.topic[u], b = self.topic[v]
        return self.start[a + 1] - self.start[a] + (self.start[b + 1] - self.start[b] if a != b else 0)

    cdef void gather(self, int32_t u, int32_t v) noexcept nogil:
        """List the tokens of the anchors' topics and their present sides.

        The order is the same for one topic and for two: the anchors' documents come first, and in them the anchors.
        """
        cdef int32_t a = self.topic[u], b = self.topic[v], t, d = self.doc[u], e = self.doc[v]
        cdef Py_ssize_t i = self.start[a], j = self.start[b], end = self.start[a + 1], stop = self.start[b + 1]
        cdef Py_ssize_t n = 0, n_first = 0, n_second = 0, room = self.room
        self.anchor[0], self.anchor[1] = u, v
        stop = stop if a != b else j
        while i < end or j < stop:
            if j >= stop or (i < end and self.by_topic[i] < self.by_topic[j]):
                t = self.by_rank[self.by_topic[i]]
                i += 1
            else:
                t = self.by_rank[self.by_topic[j]]
                j += 1
            if t == u or t == v:
                continue
            if self.doc[t] == d:
                self.front[n_first] = t
                n_first += 1
            elif self.doc[t] == e:
                self.front[room + n_second] = t
                n_second += 1
            else:
                self.items[2 * room + n] = t
                n += 1
        self.end_item = 2 * room + n
        self.first_item = 2 * room - n_first - n_second - 2
        n = self.first_item
        self.items[n] = u
        if d == e:
            self.items[n + 1] = v
            n += 1
        n += 1
        for i in range(n_first):
            self.items[n + i] = self.front[i]
        n += n_first
        if d != e:
            self.items[n] = v
            n += 1
        for i in range(n_second):
            self.items[n + i] = self.front[room + i]
        for i in range(self.first_item, self.end_item):
            t = self.items[i]
            self.side[i] = t == v if t == u or t == v else self.topic[t] != a

    # x = x + 1 in place of x += 1: a checked build takes no in-place change of an attribute without the GIL
    cdef inline void put(self, int32_t w, int s) noexcept nogil:
        """Count a token of a word on a side."""
        if self.count[0, w] + self.count[1, w] == 0:
            self.touched[self.n_touched] = w
            self.n_touched = self.n_touched + 1
        self.count[s, w] += 1
        self.size[s] = self.size[s] + 1

    cdef void begin(self) noexcept nogil:
        """Count the words of the anchors on their sides; their documents are counted in their turn."""
        self.n_touched = self.n_docs = 0
        self.size[0] = self.size[1] = 0
        self.n_side_docs[0] = self.n_side_docs[1] = 0
        self.put(self.word[self.anchor[0]], 0)
        self.put(self.word[self.anchor[1]], 1)

    cdef void end(self) noexcept nogil:
        """Forget the counts of words."""
        cdef Py_ssize_t j
        for j in range(self.n_touched):
            self.count[0, self.touched[j]] = self.count[1, self.touched[j]] = 0

    cdef inline bint is_anchor(self, int32_t t) noexcept nogil:
        return t == self.anchor[0] or t == self.anchor[1]

    cdef inline void count_in_document(self, int s) noexcept nogil:
        """Count a token on a side of the open document."""
        cdef int32_t *own = &self.docs[self.n_docs - 1, 0]
        self.n_side_docs[s] = self.n_side_docs[s] + (own[s] == 0)
        own[s] += 1

    cdef inline void open_document(self) noexcept nogil:
        self.docs[self.n_docs, 0] = self.docs[self.n_docs, 1] = 0
        self.n_docs = self.n_docs + 1

    cdef void tally(self) noexcept nogil:
        """Count words and documents of given sides."""
        cdef Py_ssize_t j
        cdef int32_t d = -1, t
        self.begin()
        for j in range(self.first_item, self.end_item):
            t = self.items[j]
            if self.doc[t] != d:
                d = self.doc[t]
                self.open_document()
            self.count_in_document(self.side[j])
            if not self.is_anchor(t):
                self.put(self.word[t], self.side[j])

    cdef bint divide(self, double mass, bint forced, double stop_below, philox_stream *rng) noexcept nogil:
        """Draw the sides of all tokens, or score the given ones.

        Return False where log q of given sides falls below a bound. `mass` is the pseudo-count of both sides together.
        """
        cdef Py_ssize_t j
        cdef int32_t d = -1, t
        cdef int s
        cdef double one, two, product = 1.0
        self.begin()
        self.log_q = 0.0
        for j in range(self.first_item, self.end_item):
            t = self.items[j]
            if self.doc[t] != d:
                if forced and self.log_q + log(product) < stop_below:
                    return False
                d = self.doc[t]
                self.open_document()
            s = self.side[j]
            if not self.is_anchor(t):
                one, two = self.score(t, mass, 0), self.score(t, mass, 1)
                if not forced:
                    s = philox_double(rng) * (one + two) >= one
                    self.side[j] = <int8_t> s
                product *= (two if s else one) / (one + two)
                if product < TINY:
                    self.log_q = self.log_q + log(product)
                    product = 1.0
                self.put(self.word[t], s)
            self.count_in_document(s)
        self.log_q = self.log_q + log(product)
        return not forced or self.log_q >= stop_below

    cdef inline double score(self, int32_t t, double mass, int s) noexcept nogil:
        """Return the weight of a side for a token, times the sizes of both."""
        cdef int32_t w = self.word[t]
        cdef double share = (self.n_side_docs[s] + HALF) / (self.n_side_docs[0] + self.n_side_docs[1] + 2.0 * HALF)
        cdef double here = self.docs[self.n_docs - 1, s] + mass * share
        cdef double own = self.eta[w] + (self.seeds[w] if s == 0 else 0.0)
        cdef double others = self.eta_sum + (self.seed_sum if s == 1 else 0.0)
        return here * (self.count[s, w] + own) * (self.size[1 - s] + others)

    cdef double log_gain(self, double mass, double share, double gamma) noexcept nogil:
        """Return the log density of two sides over that of one topic, the share included."""
        cdef Py_ssize_t j
        cdef int32_t w, m, n
        cdef double total = log(gamma) - log(share) - log1p(-share), one = mass * share, two = mass - one
        cdef double own, first = self.eta_sum + self.seed_sum
        if self.is_known:
            total += log(share)
        for j in range(self.n_docs):
            m, n = self.docs[j, 0], self.docs[j, 1]
            total += log_rising(one, m) + log_rising(two, n) - log_rising(mass, m + n)
        for j in range(self.n_touched):
            w = self.touched[j]
            m, n = self.count[0, w], self.count[1, w]
            if n and (m or self.seeds[w] > 0.0):
                own = self.eta[w] + self.seeds[w]
                total += log_rising(own, m) + log_rising(self.eta[w], n) - log_rising(own, m + n)
        total -= log_rising(first, self.size[0]) + log_rising(self.eta_sum, self.size[1])
        return total + log_rising(first, self.size[0] + self.size[1])

    cdef double log_share(self, double share) noexcept nogil:
        """Return the log density from which the share of the first side is drawn."""
        cdef double a = self.n_side_docs[0], b = self.n_side_docs[1]
        return (a - 1.0) * log(share) + (b - 1.0) * log1p(-share) + lgamma(a + b) - lgamma(a) - lgamma(b)

    def split(self, Py_ssize_t u, Py_ssize_t v, double mass, double gamma, rng, uint64_t seed, uint64_t unit,
              uint64_t step):
        """Propose to divide the topic of two tokens.

        Return the log of the acceptance ratio, and the share of the side of `u`. `mass` is the pseudo-count of the
        topic; `rng` draws the share, and the stream of the other numbers the sides.
        """
        cdef philox_stream stream
        cdef double share
        with nogil:
            self.gather(<int32_t> u, <int32_t> v)
            philox_init(&stream, seed, MOVE)
            philox_aim(&stream, unit, step)
            self.divide(mass, False, 0.0, &stream)
        share = rng.beta(self.n_side_docs[0], self.n_side_docs[1])
        if not 0.0 < share < 1.0:
            self.end()
            return -np.inf, 0.5
        gain = self.log_gain(mass, share, gamma) - self.log_q - self.log_share(share)
        self.end()
        return gain, share

    def merge(self, Py_ssize_t u, Py_ssize_t v, double one, double two, double gamma, double log_u):
        """Propose to make one of the topics of two tokens; return whether this is accepted.

        `one` and `two` are the pseudo-counts of the topics, `log_u` is the log of a uniform number.
        """
        cdef double mass = one + two, share = one / (one + two), bound
        cdef bint accepted
        if not 0.0 < share < 1.0:
            return False
        with nogil:
            self.gather(<int32_t> u, <int32_t> v)
            self.tally()
            bound = log_u + self.log_gain(mass, share, gamma) - self.log_share(share)
            self.end()
            accepted = bound <= 0.0
            if accepted:                # log q is at most 0: most other merges need no score
                accepted = self.divide(mass, True, bound, NULL)
                self.end()
        return accepted

    def benefit(self, Py_ssize_t a, Py_ssize_t b, double mass, uint64_t seed, uint64_t unit, uint64_t step):
        """Return by how many nats two topics predict their tokens better than their union does.

        Words and documents are counted in one half of the documents, and predict those of the other; then the halves
        change places. Both topics hold tokens; `mass` is the pseudo-count of both together.
        """
        cdef philox_stream stream
        cdef double total
        with nogil:
            philox_init(&stream, seed, MOVE)
            philox_aim(&stream, unit, step)
            self.gather(self.by_rank[self.by_topic[self.start[a]]], self.by_rank[self.by_topic[self.start[b]]])
            total = self.benefit_of_half(mass, 0, &stream) + self.benefit_of_half(mass, 1, &stream)
        return total

    cdef void learn_from(self, int half) noexcept nogil:
        """Count words and documents of the present sides in one half of the documents."""
        cdef Py_ssize_t j
        cdef int32_t d = -1, t
        self.n_touched = self.n_docs = 0
        self.size[0] = self.size[1] = 0
        self.n_side_docs[0] = self.n_side_docs[1] = 0
        for j in range(self.first_item, self.end_item):
            t = self.items[j]
            if self.rank[self.doc[t]] % 2 == half:
                if self.doc[t] != d:
                    d = self.doc[t]
                    self.open_document()
                self.count_in_document(self.side[j])
                self.put(self.word[t], self.side[j])

    cdef double benefit_of_half(self, double mass, int half, philox_stream *rng) noexcept nogil:
        """Return the log score of two topics less that of their union, in one half of the documents."""
        cdef Py_ssize_t j
        cdef int32_t d = -1, t, w
        cdef int s
        cdef double[2] odds, own, score
        cdef double total = 0.0, product = 1.0, whole, both
        self.learn_from(1 - half)
        both = self.size[0] + self.size[1] + self.eta_sum
        whole = self.n_side_docs[0] + self.n_side_docs[1] + 2.0 * HALF
        for s in range(2):
            odds[s] = mass * (self.n_side_docs[s] + HALF) / whole
        for j in range(self.first_item, self.end_item):
            t = self.items[j]
            if self.rank[self.doc[t]] % 2 != half:
                continue
            if self.doc[t] != d:
                d = self.doc[t]
                own[0] = own[1] = 0.0
            w = self.word[t]
            for s in range(2):
                score[s] = (own[s] + odds[s]) * (self.count[s, w] + self.eta[w]) / (self.size[s] + self.eta_sum)
            product *= (score[0] + score[1]) / (own[0] + own[1] + mass)
            product *= both / (self.count[0, w] + self.count[1, w] + self.eta[w])
            s = philox_double(rng) * (score[0] + score[1]) >= score[0]
            own[s] += 1.0
            if not TINY < product < 1.0 / TINY:
                total += log(product)
                product = 1.0
        self.end()
        return total + log(product)

    def assign(self, int32_t a, int32_t b):
        """Give the tokens of the last proposal their topics.

        It is `a` on the side of the first anchor, and `b` on the other.
        """
        cdef Py_ssize_t j
        self.topic_size = self.tokens.topic_size
        with nogil:
            for j in range(self.first_item, self.end_item):
                self.move(self.items[j], b if self.side[j] else a)

    cdef void move(self, int32_t t, int32_t new) noexcept nogil:
        """Change the topic of a token, in the list of its document, too."""
        cdef int32_t old = self.topic[t], d = self.doc[t]
        cdef int64_t j, first = self.list_start[d]
        cdef Py_ssize_t end = self.list_size[d], own = -1, at = -1
        if new == old:
            return
        for j in range(end):
            own = j if self.list_topic[first + j] == old else own
            at = j if self.list_topic[first + j] == new else at
        self.topic[t] = new
        self.topic_size[old] -= 1
        self.topic_size[new] += 1
        self.list_count[first + own] -= 1
        if at >= 0:
            self.list_count[first + at] += 1
        if self.list_count[first + own] == 0:
            end -= 1
            at = own if at == end else at
            self.list_topic[first + own], self.list_count[first + own] = (
                self.list_topic[first + end], self.list_count[first + end])
        if at < 0:
            self.list_topic[first + end], self.list_count[first + end] = new, 1
            end += 1
        self.list_size[d] = <int32_t> end

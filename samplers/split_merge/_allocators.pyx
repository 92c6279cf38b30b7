"""Divisions of the data of a cluster between two anchors, and their probabilities.

A split draws the sides. A merge needs the probability with which the same routine would have drawn the two present
clusters: the same code runs with `forced`. Each log q is a sum of terms that are not positive, so a merge may stop as
soon as the sum is too low for the merge to be accepted. The sides grow in two spare slots of the components; live
clusters are only read. The order of the data is drawn by shuffling the lists of members in place: it is uniform
whatever the order was before, needs no memory, costs O(1) an item, and has the same law at both ends of a move.
"""

from libc.math cimport exp, isnan, lgamma, log, log1p
from libc.stdint cimport int32_t, uint64_t

from expfam.contracts cimport EXPFAM_NUMERICAL, EXPFAM_OK
from expfam.structures.ground.rng cimport philox_double, philox_next64, philox_stream
from expfam.structures.partitions.members cimport member_table, members_below

cdef double LOG_HALF = -0.6931471805599453


cdef inline double log_sigmoid(double x) noexcept nogil:
    return -log1p(exp(-x)) if x >= 0 else x - log1p(exp(x))


cdef inline Py_ssize_t bring(member_table *t, Py_ssize_t k, Py_ssize_t source, Py_ssize_t target) noexcept nogil:
    """Exchange two places in the list of a slot; return the item that is now at `target`."""
    cdef int32_t *items = t.lists[k].items
    cdef int32_t moved = items[source], other = items[target]
    items[target], items[source] = moved, other
    t.position[other] = <int32_t> source
    t.position[moved] = <int32_t> target
    return moved


cdef void open_division(division *d, Py_ssize_t u, Py_ssize_t v) noexcept nogil:
    """Begin the division between two anchors: of one cluster for a split, of two for a merge."""
    cdef member_table *t = d.members
    d.u, d.v = u, v
    d.k_u, d.k_v = t.label[u], t.label[v]
    d.forced = d.k_u != d.k_v
    bring(t, d.k_u, t.position[u], 0)
    bring(t, d.k_v, t.position[v], 0 if d.forced else 1)
    d.at_u, d.at_v = 1 if d.forced else 2, 1
    d.n_others = t.lists[d.k_u].size - d.at_u + (t.lists[d.k_v].size - 1 if d.forced else 0)
    d.n_a = d.n_b = 1
    d.log_q = 0.0
    d.stopped = False


cdef int close_division(division *d) noexcept nogil:
    """Empty the spare slots."""
    cdef int code = EXPFAM_OK
    if d.fills_a:
        code = d.c.clear(d.c.self, d.a)
        d.fills_a = False
    if d.fills_b:
        code = d.c.clear(d.c.self, d.b) or code
        d.fills_b = False
    return code


cdef Py_ssize_t next_item(division *d, philox_stream *rng) noexcept nogil:
    """Draw the next datum uniformly among those that were not visited yet."""
    cdef Py_ssize_t left = d.members.lists[d.k_u].size - d.at_u, i, j
    cdef Py_ssize_t right = d.members.lists[d.k_v].size - d.at_v if d.forced else 0
    j = <Py_ssize_t> members_below(<uint64_t> (left + right), rng)
    if j < left:
        i = bring(d.members, d.k_u, d.at_u + j, d.at_u)
        d.at_u += 1
    else:
        i = bring(d.members, d.k_v, d.at_v + j - left, d.at_v)
        d.at_v += 1
    return i


cdef inline int put(division *d, Py_ssize_t i, bint with_v) noexcept nogil:
    """Add datum i to a spare slot."""
    cdef int code = d.c.add(d.c.self, i, d.b if with_v else d.a)
    d.work_done += 1.0
    if with_v:
        d.fills_b = True
    else:
        d.fills_a = True
    return code


cdef int begin_sides(division *d) noexcept nogil:
    """Add the anchors to the spare slots."""
    cdef int code = put(d, d.u, False)
    d.n_a = d.n_b = 1
    return code or put(d, d.v, True)


cdef inline bint is_with_v(const division *d, Py_ssize_t i) noexcept nogil:
    return d.members.label[i] == d.k_v


cdef int odds(division *d, Py_ssize_t i, double *out) noexcept nogil:
    """Compute the log-odds of the side of u for datum i, from sizes and predictives of sides."""
    cdef Py_ssize_t[2] ks
    cdef double[2] score
    ks[0], ks[1] = d.a, d.b
    cdef int code = d.c.log_predictive(d.c.self, i, ks, 2, score, d.work)
    if code:
        return code
    d.work_done += 2.0
    out[0] = log((d.n_a + d.offset) / (d.n_b + d.offset)) + score[0] - score[1]
    return EXPFAM_NUMERICAL if isnan(out[0]) else EXPFAM_OK


cdef inline bint decide(division *d, Py_ssize_t i, double x, bint forced, philox_stream *rng) noexcept nogil:
    """Draw the side of datum i by its log-odds, or use the given side; add its term to log q."""
    cdef bint with_v
    if forced:
        with_v = is_with_v(d, i)
    else:
        with_v = not philox_double(rng) * (1.0 + exp(-x)) < 1.0
    d.log_q += log_sigmoid(-x) if with_v else log_sigmoid(x)
    return with_v


cdef inline int record(division *d, Py_ssize_t t, Py_ssize_t i, bint with_v) noexcept nogil:
    """Add datum i, the t-th in the order, to a side."""
    d.items[t] = <int32_t> i
    d.sides[t] = with_v
    if with_v:
        d.n_b += 1
    else:
        d.n_a += 1
    return put(d, i, with_v)


cdef int place_item(division *d, Py_ssize_t t, philox_stream *rng) noexcept nogil:
    """Draw the next datum, then draw or score its side given the data before it."""
    cdef Py_ssize_t i = next_item(d, rng)
    cdef double x
    cdef int code = odds(d, i, &x)
    if code:
        return code
    return record(d, t, i, decide(d, i, x, d.forced, rng))


cdef int pass_once(division *d, double stop_below, philox_stream *rng) noexcept nogil:
    """Allocate the data in one pass, each by its predictives under the sides so far."""
    cdef Py_ssize_t t
    cdef int code = begin_sides(d)
    for t in range(d.n_others):
        if code:
            return code
        code = place_item(d, t, rng)
        if d.forced and d.log_q <= stop_below:
            d.stopped = True
            break
    return code


cdef int launch(division *d, bint by_pass, philox_stream *rng) noexcept nogil:
    """Draw the first sides for restricted Gibbs scans, whether the final sides are given or not.

    They are no part of log q.
    """
    cdef bint forced = d.forced
    cdef Py_ssize_t t, i
    cdef double x
    cdef int code = begin_sides(d)
    for t in range(d.n_others):
        if code:
            return code
        i = next_item(d, rng)
        x = 0.0
        if by_pass:
            code = odds(d, i, &x)
            if code:
                return code
        code = record(d, t, i, decide(d, i, x, False, rng))
    d.log_q = 0.0
    d.forced = forced
    return code


cdef int scan(division *d, bint scored, double stop_below, philox_stream *rng) noexcept nogil:
    """Redraw each datum given all others of the division.

    Where the sides are given, the scored scan moves each datum to its given side.
    """
    cdef Py_ssize_t t, i
    cdef double x
    cdef int code
    for t in range(d.n_others):
        i = d.items[t]
        code = d.c.remove(d.c.self, i, d.b if d.sides[t] else d.a)
        if code:
            return code
        if d.sides[t]:
            d.n_b -= 1
        else:
            d.n_a -= 1
        code = odds(d, i, &x)
        if code:
            return code
        code = record(d, t, i, decide(d, i, x, scored and d.forced, rng))
        if code:
            return code
        if scored and d.forced and d.log_q <= stop_below:
            d.stopped = True
            return EXPFAM_OK
    if not scored:
        d.log_q = 0.0
    return EXPFAM_OK


cdef int scan_often(division *d, const allocator_plan *p, double stop_below, philox_stream *rng) noexcept nogil:
    """Run a launch, some scans and a scored scan: Jain and Neal 2004."""
    cdef Py_ssize_t _s
    cdef int code = launch(d, p.code == SCANS_AFTER_PASS, rng)
    for _s in range(p.n_scans):
        if code:
            return code
        code = scan(d, False, 0.0, rng)
    return code or scan(d, True, stop_below, rng)


cdef inline int popcount(uint64_t x) noexcept nogil:
    x = x - ((x >> 1) & <uint64_t> 0x5555555555555555)
    x = (x & <uint64_t> 0x3333333333333333) + ((x >> 2) & <uint64_t> 0x3333333333333333)
    x = (x + (x >> 4)) & <uint64_t> 0x0F0F0F0F0F0F0F0F
    return <int> ((x * <uint64_t> 0x0101010101010101) >> 56)


cdef double nearer_by_bits(const division *d, Py_ssize_t i) noexcept nogil:
    """Return the number of bits in which datum i differs from v, minus those from u."""
    cdef Py_ssize_t w, gap = 0
    for w in range(d.n_words):
        gap += popcount(d.codes[i * d.n_words + w] ^ d.codes[d.v * d.n_words + w])
        gap -= popcount(d.codes[i * d.n_words + w] ^ d.codes[d.u * d.n_words + w])
    return gap


cdef int by_codes(division *d, double beta, double stop_below, philox_stream *rng) noexcept nogil:
    """Allocate the data in one pass by sizes and distances of sign codes, without statistics."""
    cdef Py_ssize_t t, i
    cdef double x
    for t in range(d.n_others):
        i = next_item(d, rng)
        x = log((d.n_a + d.offset) / (d.n_b + d.offset)) + beta * nearer_by_bits(d, i)
        d.items[t] = <int32_t> i
        d.sides[t] = decide(d, i, x, d.forced, rng)
        if d.sides[t]:
            d.n_b += 1
        else:
            d.n_a += 1
        d.work_done += 0.25
        if d.forced and d.log_q <= stop_below:
            d.stopped = True
            return EXPFAM_OK
    return EXPFAM_OK if d.forced else gather_leaving(d)


cdef int by_coins(division *d, philox_stream *rng) noexcept nogil:
    cdef Py_ssize_t t
    cdef uint64_t word = 0
    d.log_q = d.n_others * LOG_HALF
    if d.forced:
        return EXPFAM_OK
    for t in range(d.n_others):
        if t & 63 == 0:
            word = philox_next64(rng)
        d.items[t] = d.members.lists[d.k_u].items[2 + t]
        d.sides[t] = word & 1
        word >>= 1
        d.n_b += d.sides[t]
    d.n_a = d.n_others + 2 - d.n_b
    return gather_leaving(d)


cdef double urn_log_q(double n_a, double n_b, double offset) noexcept nogil:
    """Return the log probability of one assignment by two urns that begin with 1 + offset each."""
    cdef double first = lgamma(1.0 + offset)
    return (lgamma(n_a + offset) - first) + (lgamma(n_b + offset) - first) \
        - (lgamma(n_a + n_b + 2.0 * offset) - lgamma(2.0 + 2.0 * offset))


cdef Py_ssize_t smaller_size(Py_ssize_t n, double offset, philox_stream *rng) noexcept nogil:
    """Draw the size of the smaller side of n data under the urns.

    The size of a side is uniform for offset 0; otherwise its probabilities are summed, O(size).
    """
    cdef double one, left, weight
    cdef Py_ssize_t m
    if offset == 0:
        m = 1 + <Py_ssize_t> members_below(<uint64_t> (n - 1), rng)
        return min(m, n - m)
    one = exp(urn_log_q(1.0, n - 1.0, offset))
    left = philox_double(rng)
    for m in range(1, n // 2):
        weight = 2.0 * one
        if left < weight:
            return m
        left -= weight
        one *= (n - 1.0 - m) / m * (m + offset) / (n - m - 1.0 + offset)
    return max(n // 2, <Py_ssize_t> 1)


cdef int draw_subset(division *d, double offset, bint fills, philox_stream *rng) noexcept nogil:
    """Draw a smaller side by the law of the urns: its size, its anchor and a uniform subset.

    Costs O(its size).
    """
    cdef Py_ssize_t m = smaller_size(d.n_others + 2, offset, rng), t
    cdef bint with_v = philox_next64(rng) & 1
    cdef int code
    d.leaving[0] = <int32_t> (d.v if with_v else d.u)
    for t in range(1, m):
        d.leaving[t] = <int32_t> next_item(d, rng)
    d.n_b = m if with_v else d.n_others + 2 - m
    d.n_a = d.n_others + 2 - d.n_b
    if fills:
        for t in range(m):
            code = put(d, d.leaving[t], with_v)
            if code:
                return code
    return EXPFAM_OK


cdef int gather_leaving(division *d) noexcept nogil:
    """Write the data of the smaller side to `leaving`, and add them to its spare slot if needed."""
    cdef bint with_v = d.n_b <= d.n_a, filled = d.fills_a and d.fills_b
    cdef Py_ssize_t t, n = 1
    cdef int code
    d.leaving[0] = <int32_t> (d.v if with_v else d.u)
    for t in range(d.n_others):
        if d.sides[t] == with_v:
            d.leaving[n] = d.items[t]
            n += 1
    if filled:
        return EXPFAM_OK
    for t in range(n):
        code = put(d, d.leaving[t], with_v)
        if code:
            return code
    return EXPFAM_OK


cdef int by_urns(division *d, philox_stream *rng) noexcept nogil:
    cdef int code = EXPFAM_OK
    if d.forced:
        d.n_a, d.n_b = d.members.lists[d.k_u].size, d.members.lists[d.k_v].size
    else:
        code = draw_subset(d, d.offset, True, rng)
    d.log_q = urn_log_q(d.n_a, d.n_b, d.offset)
    return code


cdef int divide(division *d, const allocator_plan *p, double stop_below, philox_stream *rng) noexcept nogil:
    """Draw the sides, or score the given ones, by an allocator other than DELAYED and FOREIGN.

    After a draw, `leaving` holds the smaller side, and at least the spare slot of this side holds its statistics. After
    scoring, `stopped` says whether log_q fell to `stop_below` before the end.
    """
    cdef int code
    if p.code == COIN:
        return by_coins(d, rng)
    if p.code == URN:
        return by_urns(d, rng)
    if p.code == CODES:
        return by_codes(d, p.beta, stop_below, rng)
    if p.code == SEQUENTIAL:
        code = pass_once(d, stop_below, rng)
    else:
        code = scan_often(d, p, stop_below, rng)
    if code or d.forced:
        return code
    return gather_leaving(d)


cdef double split_prior(const division *d, Py_ssize_t n_clusters, double n_a, double n_b) noexcept nogil:
    """Return the log prior after a split into n_a and n_b data, minus the log prior before it.

    `n_clusters` is the number of clusters before the split.
    """
    cdef double c = d.offset
    return d.log_new_mass[n_clusters] + (lgamma(n_a + c) - lgamma(1.0 + c)) + (lgamma(n_b + c) - lgamma(n_a + n_b + c))

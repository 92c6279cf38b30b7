"""Split and merge moves of each kind, one after the other, without the gil.

Each kind draws what it needs, evaluates the ratio of posteriors and of proposals, and accepts the move or not. Live
clusters are written only after acceptance. `expfam.samplers.split_merge.kernel` explains why each kind is exact.
"""

from libc.math cimport INFINITY, exp, isnan, lgamma, log
from libc.stdint cimport int32_t, uint64_t

from expfam.contracts cimport EXPFAM_NUMERICAL, EXPFAM_OK
from expfam.samplers.chain.accept cimport accepted, log_uniform
from expfam.samplers.split_merge._allocators cimport (
    DELAYED, allocator_plan, begin_sides, close_division, divide, division, draw_subset, gather_leaving, open_division,
    place_item, split_prior,
)
from expfam.samplers.states.collapsed cimport slot_enter, slot_find_spare, slot_leave, slot_table
from expfam.structures.ground.rng cimport MOVE, philox_aim, philox_double, philox_init, philox_next64, philox_stream
from expfam.structures.partitions.members cimport (
    MEMBERS_OK, member_table, members_below, members_draw_slot, members_merge, members_reserve, members_split,
)


# ---- what an accepted move does ------------------------------------------------------------------------------------

cdef double MOVE_COST = 16.0        # fixed work of a move, in predictives of one cluster; measured


cdef void set_count(slot_table *t, Py_ssize_t k, Py_ssize_t n) noexcept nogil:
    """Set the number of data of a slot, and update all that follows from it."""
    if t.counts[k] == 0 and n > 0:
        slot_enter(t, k)
    if n == 0:
        t.counts[k] = 1
    else:
        t.counts[k] = n + 1
    slot_leave(t, k)


cdef int split(move_state *w) noexcept nogil:
    """Make the side in `leaving` a new cluster."""
    cdef division *d = &w.d
    cdef Py_ssize_t k = d.k_u, new = w.slots.spare, j
    cdef bint with_v = d.leaving[0] == d.v
    cdef Py_ssize_t n = d.n_b if with_v else d.n_a, side = d.b if with_v else d.a
    cdef int code
    if members_reserve(d.members, new, n) != MEMBERS_OK:
        return NO_MEMORY
    code = d.c.swap(d.c.self, new, side)
    if code:
        return code
    code = d.c.subtract(d.c.self, k, new)
    if code:
        d.c.swap(d.c.self, new, side)
        return code
    for j in range(n):
        w.labels[d.leaving[j]] = <int32_t> new
    members_split(d.members, d.leaving, n, new)
    set_count(w.slots, new, n)
    set_count(w.slots, k, d.n_a + d.n_b - n)
    w.n_shifted += n
    w.changed = True
    w.n[1] += 1
    return EXPFAM_OK


cdef int merge(move_state *w) noexcept nogil:
    """Merge the clusters of the anchors, in the slot of the larger one."""
    cdef division *d = &w.d
    cdef member_table *t = d.members
    cdef Py_ssize_t kept = d.k_u, gone = d.k_v, n, j
    cdef int code
    if t.lists[gone].size > t.lists[kept].size:
        kept, gone = gone, kept
    n = t.lists[kept].size + t.lists[gone].size
    if members_reserve(t, kept, n) != MEMBERS_OK:
        return NO_MEMORY
    code = d.c.absorb(d.c.self, kept, gone)
    if code:
        return code
    for j in range(t.lists[gone].size):
        w.labels[t.lists[gone].items[j]] = <int32_t> kept
    w.n_shifted += t.lists[gone].size
    members_merge(t, d.k_u, d.k_v)
    set_count(w.slots, gone, 0)
    set_count(w.slots, kept, n)
    w.changed = True
    w.n[3] += 1
    return EXPFAM_OK


# ---- ratios --------------------------------------------------------------------------------------------------------

cdef int merged_ratio(move_state *w, Py_ssize_t k, Py_ssize_t l, Py_ssize_t n_clusters, double n_k, double n_l,
                      double *out) noexcept nogil:
    """Compute the log posterior of two separate slots minus the log posterior of their union.

    `n_clusters` is the number of clusters with the union.
    """
    cdef division *d = &w.d
    cdef Py_ssize_t[2] ks
    cdef double[2] apart
    cdef double together
    ks[0], ks[1] = k, l
    cdef int code = d.c.log_marginal(d.c.self, ks, 2, apart, d.work)
    if code == EXPFAM_OK:
        code = d.c.log_merged(d.c.self, k, ks + 1, 1, &together, d.work)
    if code:
        return code
    d.work_done += 3.0 * d.evidence_cost
    out[0] = split_prior(d, n_clusters, n_k, n_l) + apart[0] + apart[1] - together
    return EXPFAM_NUMERICAL if isnan(out[0]) else EXPFAM_OK


cdef int split_ratio(move_state *w, double *out) noexcept nogil:
    """Compute the log posterior of the drawn sides minus the log posterior of their cluster."""
    cdef division *d = &w.d
    cdef Py_ssize_t[3] ks
    cdef double[3] score
    cdef Py_ssize_t filled = d.b if d.fills_b else d.a
    cdef int code
    ks[0], ks[1], ks[2] = d.k_u, d.a, d.b
    if d.fills_a and d.fills_b:
        code = d.c.log_marginal(d.c.self, ks, 3, score, d.work)
    else:
        ks[1] = filled
        code = d.c.log_marginal(d.c.self, ks, 2, score, d.work)
        if code == EXPFAM_OK:
            code = d.c.log_remainder(d.c.self, d.k_u, filled, score + 2, d.work)
    if code:
        return code
    d.work_done += 3.0 * d.evidence_cost
    out[0] = split_prior(d, w.slots.n_live, d.n_a, d.n_b) + score[1] + score[2] - score[0]
    return EXPFAM_NUMERICAL if isnan(out[0]) else EXPFAM_OK


# ---- what is known of rows -----------------------------------------------------------------------------------------

cdef bint parts_class(const move_state *w, const int32_t *leaving, Py_ssize_t n) noexcept nogil:
    """Tell whether some but not all known rows of the divided cluster leave it."""
    cdef member_table *t = w.d.members
    cdef Py_ssize_t j, n_leaving = 0, n_known = 0
    for j in range(n):
        n_leaving += w.known.row_class[leaving[j]] >= 0
    if n_leaving == 0:
        return False
    for j in range(t.lists[w.d.k_u].size):
        n_known += w.known.row_class[t.lists[w.d.k_u].items[j]] >= 0
    return n_leaving < n_known


cdef bint parts_group(const move_state *w, const int32_t *leaving, Py_ssize_t n) noexcept nogil:
    """Tell whether some but not all rows of a link group leave the divided cluster."""
    cdef Py_ssize_t j
    cdef int32_t g
    cdef bint parts = False
    for j in range(n):
        g = w.known.row_group[leaving[j]]
        if g >= 0:
            w.known.group_seen[g] += 1
    for j in range(n):
        g = w.known.row_group[leaving[j]]
        if g >= 0 and w.known.group_seen[g] and w.known.group_seen[g] < w.known.group_size[g]:
            parts = True
    for j in range(n):
        g = w.known.row_group[leaving[j]]
        if g >= 0:
            w.known.group_seen[g] = 0
    return parts


cdef bint forbids_split(const move_state *w) noexcept nogil:
    """Tell whether the drawn sides part rows that are known to be in one cluster."""
    cdef const division *d = &w.d
    cdef Py_ssize_t n = d.n_b if d.leaving[0] == d.v else d.n_a
    if w.known.row_class != NULL and w.known.is_cluster and parts_class(w, d.leaving, n):
        return True
    return w.known.row_group != NULL and parts_group(w, d.leaving, n)


cdef int32_t class_of_cluster(const move_state *w, Py_ssize_t k) noexcept nogil:
    cdef member_table *t = w.d.members
    cdef Py_ssize_t j
    for j in range(t.lists[k].size):
        if w.known.row_class[t.lists[k].items[j]] >= 0:
            return w.known.row_class[t.lists[k].items[j]]
    return -1


cdef bint forbids_merge(const move_state *w) noexcept nogil:
    """Tell whether the clusters of the anchors hold known rows of two classes."""
    cdef int32_t one
    if w.known.row_class == NULL:
        return False
    one = class_of_cluster(w, w.d.k_u)
    return one >= 0 and class_of_cluster(w, w.d.k_v) not in (-1, one)


cdef int finish_split(move_state *w, double extra, double lu) noexcept nogil:
    """Accept or refuse the drawn sides.

    `extra` is the log of all factors of the acceptance ratio but the posterior and log q.
    """
    cdef double ratio
    cdef int code = split_ratio(w, &ratio)
    if code or not accepted(ratio - w.d.log_q + extra, lu) or forbids_split(w):
        return code
    code = split(w)
    if code == EXPFAM_OK:
        w.log_joint += ratio
    return code


cdef int finish_merge(move_state *w, double ratio, double extra, double lu) noexcept nogil:
    cdef int code
    if w.d.stopped or not accepted(w.d.log_q - ratio - extra, lu) or forbids_merge(w):
        return EXPFAM_OK
    code = merge(w)
    if code == EXPFAM_OK:
        w.log_joint -= ratio
    return code


# ---- moves between anchors -----------------------------------------------------------------------------------------

cdef bint can_split(const move_state *w) noexcept nogil:
    return w.slots.n_live < w.slots.max_live


cdef int try_delayed(move_state *w, const allocator_plan *p, double extra, philox_stream *rng) noexcept nogil:
    """Accept or refuse in stages: test the first items of the order, then more, then all.

    Delayed acceptance: with R_0 = 1, R_k the acceptance ratio of the sub-problem of stage k and R_K the ratio of the
    whole move, the move is accepted with probability prod min(1, R_k / R_{k-1}). For the reverse move this is
    prod min(1, R_{k-1} / R_k). The stages depend on the number of data alone.
    """
    cdef division *d = &w.d
    cdef Py_ssize_t t, next_stage = p.first_stage, n_clusters = w.slots.n_live - d.forced
    cdef double sign = -1.0 if d.forced else 1.0, former = 0.0, lu = log_uniform(rng), ratio, whole = 0.0
    cdef bint knows_whole = False
    cdef int code = begin_sides(d)
    for t in range(d.n_others):
        if code:
            return code
        if t == next_stage and d.n_others > 2 * next_stage:
            code = merged_ratio(w, d.a, d.b, n_clusters, d.n_a, d.n_b, &ratio)
            if code:
                return code
            ratio = sign * (ratio - d.log_q + extra)
            if not accepted(ratio - former, lu):
                return EXPFAM_OK
            former = ratio
            next_stage *= p.stage_factor
            lu = log_uniform(rng)
        if d.forced and not knows_whole and d.n_others <= 2 * next_stage:
            code = merged_ratio(w, d.k_u, d.k_v, n_clusters, d.members.lists[d.k_u].size,
                                d.members.lists[d.k_v].size, &whole)
            knows_whole = True
            if code:
                return code
        code = place_item(d, t, rng)
        if knows_whole and not w.eager and not accepted(d.log_q - whole - extra - former, lu):
            return code
    if code:
        return code
    if not d.forced:
        code = gather_leaving(d)
        return code or finish_split(w, extra, lu + former)
    if not knows_whole:
        code = merged_ratio(w, d.k_u, d.k_v, n_clusters, d.n_a, d.n_b, &whole)
    return code or finish_merge(w, whole, extra, lu + former)


cdef int try_split(move_state *w, const allocator_plan *p, double extra, philox_stream *rng) noexcept nogil:
    cdef double lu
    cdef int code
    if not can_split(w):
        return EXPFAM_OK
    if p.code == DELAYED:
        return try_delayed(w, p, extra, rng)
    lu = log_uniform(rng)
    code = divide(&w.d, p, 0.0, rng)
    return code or finish_split(w, extra, lu)


cdef int try_merge(move_state *w, const allocator_plan *p, double extra, philox_stream *rng) noexcept nogil:
    """Accept or refuse a merge, as early as possible.

    It is refused before any member is read where log q <= 0 already decides, or as soon as a partial sum of log q does.
    """
    cdef division *d = &w.d
    cdef double lu, ratio
    cdef int code
    if p.code == DELAYED:
        return try_delayed(w, p, extra, rng)
    lu = log_uniform(rng)
    code = merged_ratio(w, d.k_u, d.k_v, w.slots.n_live - 1, d.members.lists[d.k_u].size,
                        d.members.lists[d.k_v].size, &ratio)
    if code or (not w.eager and not accepted(-ratio - extra, lu)):
        return code
    code = divide(d, p, -INFINITY if w.eager else lu + ratio + extra, rng)
    return code or finish_merge(w, ratio, extra, lu)


cdef double thinning(const move_state *w, const move_plan *p) noexcept nogil:
    """Return the probability with which a split of the anchors' data is tried.

    It depends only on the number of these data, which is the same at both ends of a move.
    """
    cdef double n = w.d.n_others + 2.0
    return min(p.rho, p.most / n)


cdef int anchored_move(move_state *w, const move_plan *p, Py_ssize_t u, Py_ssize_t v,
                       philox_stream *rng) noexcept nogil:
    cdef double rho
    if u < 0 or u == v:
        return EXPFAM_OK
    open_division(&w.d, u, v)
    rho = thinning(w, p)
    if w.d.forced:
        w.n[2] += 1
        return try_merge(w, &p.allocator, -log(rho), rng)
    if not philox_double(rng) < rho:
        return EXPFAM_OK
    w.n[0] += 1
    return try_split(w, &p.allocator, -log(rho), rng)


cdef bint draw_member_anchors(move_state *w, Py_ssize_t *u, Py_ssize_t *v, philox_stream *rng) noexcept nogil:
    """Draw two anchors; return whether there is a move.

    A fair coin decides between two data of the cluster of a uniform datum, for a split, and two uniform data of
    different clusters, for a merge.
    """
    cdef member_table *t = w.d.members
    cdef Py_ssize_t k, j
    cdef bint wants_split = philox_next64(rng) & 1
    u[0] = <Py_ssize_t> members_below(<uint64_t> w.n_rows, rng)
    k = t.label[u[0]]
    if wants_split:
        if t.lists[k].size < 2:
            return False
        j = <Py_ssize_t> members_below(<uint64_t> (t.lists[k].size - 1), rng)
        v[0] = t.lists[k].items[j + (j >= t.position[u[0]])]
        return True
    v[0] = <Py_ssize_t> members_below(<uint64_t> w.n_rows, rng)
    return t.label[v[0]] != k


cdef int member_move(move_state *w, const move_plan *p, philox_stream *rng) noexcept nogil:
    cdef Py_ssize_t u, v
    cdef double extra
    if w.n_rows < 2 or not draw_member_anchors(w, &u, &v, rng):
        return EXPFAM_OK
    open_division(&w.d, u, v)
    extra = log((w.d.n_others + 1.0) / w.n_rows)
    w.n[2 if w.d.forced else 0] += 1
    if w.d.forced:
        return try_merge(w, &p.allocator, extra, rng)
    return try_split(w, &p.allocator, extra, rng)


# ---- splits by a bucket (MinSM) ------------------------------------------------------------------------------------

cdef inline uint64_t key_of(const move_plan *p, Py_ssize_t i, Py_ssize_t which) noexcept nogil:
    return p.keys[i * p.n_tables + which]


cdef bint is_bucket(const move_state *w, const move_plan *p, Py_ssize_t which, Py_ssize_t k,
                    Py_ssize_t l) noexcept nogil:
    """Return whether all data of slot k are of one bucket, and none of slot l are of it."""
    cdef member_table *t = w.d.members
    cdef uint64_t key = key_of(p, t.lists[k].items[0], which)
    cdef Py_ssize_t j
    for j in range(1, t.lists[k].size):
        if key_of(p, t.lists[k].items[j], which) != key:
            return False
    for j in range(t.lists[l].size):
        if key_of(p, t.lists[l].items[j], which) == key:
            return False
    return True


cdef int bucket_split(move_state *w, const move_plan *p, Py_ssize_t which, philox_stream *rng) noexcept nogil:
    """Split the part of a datum's cluster that lies in the datum's bucket from the rest."""
    cdef division *d = &w.d
    cdef member_table *t = d.members
    cdef Py_ssize_t u = <Py_ssize_t> members_below(<uint64_t> w.n_rows, rng), k = t.label[u], n = t.lists[k].size, j
    cdef Py_ssize_t v = -1, n_in = 0
    cdef uint64_t key = key_of(p, u, which)
    cdef bint is_one = True         # whether the rest lies in one bucket, too
    cdef double f
    cdef int code
    for j in range(n):
        if key_of(p, t.lists[k].items[j], which) == key:
            n_in += 1
        elif v < 0:
            v = t.lists[k].items[j]
        elif key_of(p, t.lists[k].items[j], which) != key_of(p, v, which):
            is_one = False
    d.work_done += 0.1 * n
    if v < 0 or not can_split(w):
        return EXPFAM_OK
    w.n[0] += 1
    open_division(d, u, v)
    for j in range(d.n_others):
        d.items[j] = t.lists[k].items[2 + j]
        d.sides[j] = key_of(p, d.items[j], which) != key
    d.n_a, d.n_b = n_in, n - n_in
    code = gather_leaving(d)
    f = (n_in + (n - n_in if is_one else 0)) / <double> w.n_rows
    d.log_q = log(f)
    j = w.slots.n_live
    return code or finish_split(w, log(2.0 / ((j + 1.0) * j)), log_uniform(rng))


cdef int uniform_pair(move_state *w, philox_stream *rng) noexcept nogil:
    """Begin the division of a uniform pair of clusters; there must be at least two."""
    cdef member_table *t = w.d.members
    cdef Py_ssize_t k = <Py_ssize_t> members_below(<uint64_t> t.n_active, rng), other
    other = <Py_ssize_t> members_below(<uint64_t> (t.n_active - 1), rng)
    other += other >= k
    open_division(&w.d, t.lists[t.slots[k]].items[0], t.lists[t.slots[other]].items[0])
    w.n[2] += 1
    return EXPFAM_OK


cdef int bucket_merge(move_state *w, const move_plan *p, Py_ssize_t which, philox_stream *rng) noexcept nogil:
    cdef division *d = &w.d
    cdef double n_u, n_v, f, ratio, M = w.slots.n_live
    cdef int code
    if w.slots.n_live < 2:
        return EXPFAM_OK
    uniform_pair(w, rng)
    n_u, n_v = d.members.lists[d.k_u].size, d.members.lists[d.k_v].size
    f = n_u * is_bucket(w, p, which, d.k_u, d.k_v) + n_v * is_bucket(w, p, which, d.k_v, d.k_u)
    if f == 0:
        return EXPFAM_OK
    d.log_q = log(f / w.n_rows)
    code = merged_ratio(w, d.k_u, d.k_v, w.slots.n_live - 1, n_u, n_v, &ratio)
    return code or finish_merge(w, ratio, log(2.0 / (M * (M - 1.0))), log_uniform(rng))


cdef int bucket_move(move_state *w, const move_plan *p, philox_stream *rng) noexcept nogil:
    cdef Py_ssize_t which = <Py_ssize_t> members_below(<uint64_t> p.n_tables, rng)
    if philox_next64(rng) & 1:
        return bucket_split(w, p, which, rng)
    return bucket_merge(w, p, which, rng)


# ---- merges chosen by their evidence (SDDS) ------------------------------------------------------------------------

cdef int log_choice(move_state *w, Py_ssize_t k, Py_ssize_t l, Py_ssize_t left_out, double *out) noexcept nogil:
    """Compute the log probability of choosing slot l for slot k, in proportion to Bayes factors.

    The candidates are all clusters but k and `left_out`. They stay in `ks`, l last, with their log weights in `scores`.
    """
    cdef division *d = &w.d
    cdef member_table *t = d.members
    cdef Py_ssize_t j, m = 0, other
    cdef double best = -INFINITY, total = 0.0
    cdef int code
    for j in range(t.n_active):
        other = t.slots[j]
        if other != k and other != l and other != left_out:
            w.ks[m] = other
            m += 1
    if l >= 0:
        w.ks[m] = l
        m += 1
    code = d.c.log_merged(d.c.self, k, w.ks, m, w.scores, d.work)
    if code == EXPFAM_OK:
        code = d.c.log_marginal(d.c.self, w.ks, m, w.scores + m, d.work)
    if code:
        return code
    d.work_done += 2.0 * m * d.evidence_cost
    for j in range(m):
        w.scores[j] -= w.scores[m + j]
        if isnan(w.scores[j]):
            return EXPFAM_NUMERICAL
        best = max(best, w.scores[j])
    if not -INFINITY < best < INFINITY:
        return EXPFAM_NUMERICAL
    for j in range(m):
        total += exp(w.scores[j] - best)
    out[0] = w.scores[m - 1] - best - log(total)
    w.scores[m] = best + log(total)
    return EXPFAM_OK


cdef Py_ssize_t draw_choice(const move_state *w, Py_ssize_t m, philox_stream *rng) noexcept nogil:
    """Draw a candidate by the weights that `log_choice` left."""
    cdef double left = philox_double(rng)
    cdef Py_ssize_t j
    for j in range(m):
        left -= exp(w.scores[j] - w.scores[m])
        if left < 0:
            return w.ks[j]
    return w.ks[m - 1]


cdef double log_subset(double n, double n_a) noexcept nogil:
    """Return the log probability of two sides of n_a and n - n_a data, in either order.

    The size is uniform on 1..n-1, then the subset is uniform.
    """
    return log(2.0 / (n - 1.0)) - (lgamma(n + 1.0) - lgamma(n_a + 1.0) - lgamma(n - n_a + 1.0))


cdef double log_sum(double x, double y) noexcept nogil:
    cdef double top = max(x, y)
    return top + log(exp(x - top) + exp(y - top)) if top > -INFINITY else top


cdef int softmax_merge(move_state *w, philox_stream *rng) noexcept nogil:
    cdef division *d = &w.d
    cdef member_table *t = d.members
    cdef Py_ssize_t k, other, M = w.slots.n_live
    cdef double there, back, ratio, n_u, n_v
    cdef int code
    if M < 2:
        return EXPFAM_OK
    w.n[2] += 1
    k = members_draw_slot(t, rng)
    code = log_choice(w, k, -1, -1, &there)
    if code:
        return code
    other = draw_choice(w, M - 1, rng)
    code = log_choice(w, k, other, -1, &there) or log_choice(w, other, k, -1, &back)
    if code:
        return code
    open_division(d, t.lists[k].items[0], t.lists[other].items[0])
    n_u, n_v = t.lists[k].size, t.lists[other].size
    code = merged_ratio(w, k, other, M - 1, n_u, n_v, &ratio)
    d.log_q = log_subset(n_u + n_v, n_u) - log(M - 1.0) - log_sum(there, back) + log(<double> M)
    return code or finish_merge(w, ratio, 0.0, log_uniform(rng))


cdef int softmax_split(move_state *w, philox_stream *rng) noexcept nogil:
    cdef division *d = &w.d
    cdef member_table *t = d.members
    cdef Py_ssize_t k = members_draw_slot(t, rng), n = t.lists[k].size, i, j, M = w.slots.n_live
    cdef double there, back, lu = log_uniform(rng)
    cdef int code
    if n < 2 or not can_split(w):
        return EXPFAM_OK
    w.n[0] += 1
    i = <Py_ssize_t> members_below(<uint64_t> n, rng)
    j = <Py_ssize_t> members_below(<uint64_t> (n - 1), rng)
    j += j >= i
    open_division(d, t.lists[k].items[i], t.lists[k].items[j])
    code = draw_subset(d, 0.0, True, rng)
    for j in range(d.at_u, n):          # the data that were not drawn: anchors and drawn data stand before them
        if code:
            return code
        code = fill_other(d, t.lists[k].items[j])
    code = code or fill_other(d, d.u if d.leaving[0] == d.v else d.v)
    code = code or log_choice(w, d.a, d.b, k, &there) or log_choice(w, d.b, d.a, k, &back)
    d.log_q = log_subset(n, d.n_a) - log(<double> M) - log_sum(there, back) + log(M + 1.0)
    return code or finish_split(w, 0.0, lu)


cdef int fill_other(division *d, Py_ssize_t i) noexcept nogil:
    """Add datum i to the spare slot of the larger side, after `leaving` was drawn."""
    d.work_done += 1.0
    if d.leaving[0] == d.v:
        d.fills_a = True
        return d.c.add(d.c.self, i, d.a)
    d.fills_b = True
    return d.c.add(d.c.self, i, d.b)


cdef int softmax_move(move_state *w, philox_stream *rng) noexcept nogil:
    return softmax_split(w, rng) if philox_next64(rng) & 1 else softmax_merge(w, rng)


# ---- a run of moves ------------------------------------------------------------------------------------------------

cdef int one_move(move_state *w, const move_plan *p, Py_ssize_t place, philox_stream *rng) noexcept nogil:
    cdef int code, cleared
    w.changed = False
    w.d.work_done += MOVE_COST
    if p.kind == ANCHORED:
        code = anchored_move(w, p, w.pairs[2 * place], w.pairs[2 * place + 1], rng)
    elif p.kind == MEMBER:
        code = member_move(w, p, rng)
    elif p.kind == BUCKET:
        code = bucket_move(w, p, rng)
    else:
        code = softmax_move(w, rng)
    cleared = close_division(&w.d)
    return code or cleared


cdef bint has_slots(move_state *w) noexcept nogil:
    """Return whether there are free slots for a new cluster and for two sides."""
    return slot_find_spare(w.slots) and w.slots.n_slots <= w.slots.capacity - 2


cdef int run_moves(move_state *w, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t *at) noexcept nogil:
    """Make moves one after the other; write the place of the first unfinished move to `at`."""
    cdef philox_stream rng
    cdef Py_ssize_t place
    cdef int code
    philox_init(&rng, w.seed, MOVE)
    for place in range(start, stop):
        at[0] = place
        if not has_slots(w):
            return GROW
        if w.plans[w.which[place]].is_away:
            return AWAY
        philox_aim(&rng, w.first + <uint64_t> place, w.step)
        code = one_move(w, &w.plans[w.which[place]], place, &rng)
        if code:
            return code
    at[0] = stop
    return EXPFAM_OK

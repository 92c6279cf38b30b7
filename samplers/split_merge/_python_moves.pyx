"""Split and merge moves whose sides come from Python: from an allocator or from a cut.

They are tested, accepted and applied by the functions of `expfam.samplers.split_merge._moves`. Only sides and log q
come from Python objects, which see rows and statistics.
"""

import numpy as np

from libc.math cimport INFINITY, log
from libc.stdint cimport int8_t, int32_t, uint64_t

from expfam.amounts import counted
from expfam.contracts cimport EXPFAM_OK
from expfam.samplers.split_merge._allocators cimport close_division, division, gather_leaving, open_division
from expfam.samplers.split_merge._moves cimport (
    ANCHORED, CUT, MEMBER, can_split, draw_member_anchors, finish_merge, finish_split, merged_ratio, move_plan,
    thinning, move_state,
)
from expfam.samplers.states.collapsed cimport CollapsedState
from expfam.structures.ground.rng cimport MOVE, philox_aim, philox_init, philox_stream
from expfam.structures.partitions.members cimport MemberLists

from expfam.errors import PluginError
from expfam.families.support import chosen_rows, read_only_array


cdef int away_move(move_state *w, CollapsedState state, MemberLists lists, move, allocator, Py_ssize_t place,
                   rng) except? -9:
    """Make one move of the plan with the bound allocator, or with the cuts of the move itself.

    Returns an EXPFAM code.
    """
    cdef const move_plan *p = w.plans + w.which[place]
    try:
        if p.kind == CUT:
            return cut_move(w, lists, state.data.X, move, rng)
        return foreign_move(w, p, state, lists, allocator, place, rng)
    finally:
        close_division(&w.d)


# ---- divisions by a foreign allocator ------------------------------------------------------------------------------

cdef int foreign_move(move_state *w, const move_plan *p, CollapsedState state, MemberLists lists, allocator,
                      Py_ssize_t place, rng) except? -9:
    cdef division *d = &w.d
    cdef Py_ssize_t u = w.pairs[2 * place], v = w.pairs[2 * place + 1]
    cdef double lu = np.log(1.0 - rng.random()), rho, extra, ratio
    cdef philox_stream stream
    cdef int code
    if p.kind == MEMBER:
        philox_init(&stream, w.seed, MOVE)
        philox_aim(&stream, w.first + <uint64_t> place + (<uint64_t> 1 << 63), w.step)
        if w.n_rows < 2 or not draw_member_anchors(w, &u, &v, &stream):
            return EXPFAM_OK
    if u < 0 or u == v:
        return EXPFAM_OK
    open_division(d, u, v)
    rho = thinning(w, p)
    extra = log((d.n_others + 1.0) / w.n_rows) if p.kind == MEMBER else -log(rho)
    if not d.forced:
        if not can_split(w) or (p.kind == ANCHORED and not rng.random() < rho):
            return EXPFAM_OK
        w.n[0] += 1
        rows = rows_of_division(d, lists)
        sides, log_q = checked_sides(allocator.sides(phi(state, rows), rng), rows.size, allocator)
        return write_sides(d, sides, log_q, rows) or finish_split(w, extra, lu)
    w.n[2] += 1
    code = merged_ratio(w, d.k_u, d.k_v, w.slots.n_live - 1, d.members.lists[d.k_u].size,
                        d.members.lists[d.k_v].size, &ratio)
    if code or not lu < -ratio - extra:
        return code
    rows = rows_of_division(d, lists)
    given = (state.labels[rows] == d.k_v).astype(np.int8)
    d.log_q = checked_sides(allocator.sides(phi(state, rows), rng, forced=given), rows.size, allocator)[1]
    return finish_merge(w, ratio, extra, lu)


cdef object rows_of_division(const division *d, MemberLists lists):
    """Return the anchors, then the other data in ascending order.

    This order is the same at both ends of a move.
    """
    rows = lists.members(d.k_u)
    if d.k_v != d.k_u:
        rows = np.concatenate([rows, lists.members(d.k_v)])
    rows = np.sort(rows)
    return np.concatenate([[d.u, d.v], rows[(rows != d.u) & (rows != d.v)]])


cdef object phi(CollapsedState state, rows):
    """Return the statistics of some data, as CSR where the family makes CSR statistics."""
    data = state.data
    return read_only_array(data.family.sufficient_statistics(chosen_rows(data.X, rows)))


cdef object checked_sides(answer, Py_ssize_t size, allocator):
    """Return the sides and log q of an allocator; raise a PluginError for invalid ones."""
    sides, log_q = answer
    sides = np.asarray(sides)
    if sides.shape != (size,) or ((sides != 0) & (sides != 1)).any() or sides[0] != 0 or sides[1] != 1:
        raise PluginError(
            f"{allocator!r}: sides must be {counted(size, 'number')} 0 and 1 that begin with 0, 1; got {sides!r}"
        )
    if not log_q <= 1e-9:
        raise PluginError(f"{allocator!r}: log q must not be positive; got {log_q!r}")
    return sides.astype(np.int8), min(float(log_q), 0.0)


cdef int write_sides(division *d, sides, double log_q, rows) except? -9:
    """Write sides from Python to the division, and the smaller side's statistics to its slot.

    `rows` begins with the anchors.
    """
    cdef const int32_t[::1] items = np.ascontiguousarray(rows, dtype=np.int32)
    cdef const int8_t[::1] side = sides
    cdef Py_ssize_t j
    for j in range(2, items.shape[0]):
        d.items[j - 2] = items[j]
        d.sides[j - 2] = side[j]
    d.n_b = int(np.count_nonzero(sides))
    d.n_a = rows.size - d.n_b
    d.log_q = log_q
    return gather_leaving(d)


# ---- cuts ----------------------------------------------------------------------------------------------------------

cdef int cut_move(move_state *w, MemberLists lists, X, move, rng) except? -9:
    """Cut a cluster in two at a value of one column, or merge two clusters that a cut separates."""
    cdef double lu = np.log(1.0 - rng.random())
    if rng.random() < 0.5:
        return cut_split(w, lists, X, move, rng, lu)
    return cut_merge(w, lists, X, move, rng, lu)


cdef int cut_split(move_state *w, MemberLists lists, X, move, rng, double lu) except? -9:
    cdef Py_ssize_t M = w.slots.n_live, k = w.d.members.slots[<Py_ssize_t> rng.integers(M)]
    rows = np.sort(lists.members(k))
    sides = move.draw(X[rows], rng) if rows.size > 1 and can_split(w) else None
    if sides is None:
        return EXPFAM_OK
    w.n[0] += 1
    other = int(np.argmax(sides != sides[0]))       # the anchors are the first row and the first beyond the cut
    log_q = move.log_q(X[rows[sides == 0]], X[rows[sides == 1]]) - np.log(M)
    open_division(&w.d, rows[0], rows[other])
    order = np.concatenate([[0, other], np.setdiff1d(np.arange(rows.size), [0, other])])
    sides = (sides[order] != sides[0]).astype(np.int8)
    return write_sides(&w.d, sides, log_q, rows[order]) or finish_split(w, np.log(2.0 / ((M + 1.0) * M)), lu)


cdef int cut_merge(move_state *w, MemberLists lists, X, move, rng, double lu) except? -9:
    cdef division *d = &w.d
    cdef Py_ssize_t M = w.slots.n_live
    cdef double ratio
    cdef int code
    if M < 2:
        return EXPFAM_OK
    w.n[2] += 1
    rows = [lists.members(k) for k in lists.clusters()[rng.choice(M, 2, replace=False)]]
    open_division(d, rows[0][0], rows[1][0])
    log_q = move.log_q(X[rows[0]], X[rows[1]])
    if not log_q > -INFINITY:
        return EXPFAM_OK
    d.log_q = log_q - np.log(M - 1.0)
    code = merged_ratio(w, d.k_u, d.k_v, M - 1, d.members.lists[d.k_u].size, d.members.lists[d.k_v].size, &ratio)
    return code or finish_merge(w, ratio, np.log(2.0 / (M * (M - 1.0))), lu)

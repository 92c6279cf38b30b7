"""Branch-and-bound search of a tree of clusters for one datum, and exact draws of clusters.

Everything runs without the gil. A search leaves a cell out if a bound of its total weight is tau nats below the largest
known weight. The cells that are left out form a tail with a known bound of its weight. If a draw falls into the tail,
the exact weights of its members are computed, and the draw is repeated unless it falls on one of these weights. So the
labels follow the law of a dense pass up to rounding in double precision, for every tau and every valid bound; tau and
the bounds only change the cost. Clusters are scored in single precision with a bound of the error. Clusters that this
cannot rule out are scored again in double precision. A datum costs O(F) for each scored cluster.
"""

from libc.math cimport INFINITY, exp, sqrt
from libc.stdint cimport int32_t

from expfam.structures.cluster_tree.cells cimport (
    REACH_ROWS, cluster_cell, cluster_query, cluster_tree, exact_score, item_scores, near_distances, padded, rise,
    root_score, tree_item,
)
from expfam.structures.simd.blocks cimport EXPFAM_BLOCK
from expfam.structures.simd.float_dots cimport EXPFAM_FLOAT_CHUNK
from expfam.structures.simd.reach cimport expfam_rises
from expfam.structures.simd.softmax cimport expfam_exp_blocks
from expfam.structures.simd.vectors cimport expfam_dot
from expfam.structures.ground.rng cimport philox_double, philox_stream

cdef double UNIT = 5.9604644775390625e-08      # rounding of a float


# ---- one datum -----------------------------------------------------------------------------------------------------

cdef inline double *allocate(double **memory, Py_ssize_t n_bytes) noexcept nogil:
    """Return the next `n_bytes` bytes of the memory, rounded up to whole doubles."""
    cdef double *here = memory[0]
    memory[0] += (n_bytes + 7) // 8
    return here


cdef Py_ssize_t lay_out(const cluster_tree *tree, Py_ssize_t nnz, double *memory, tree_search *w) noexcept nogil:
    cdef Py_ssize_t parts = tree.n_cells + tree.n_positions, room = nnz if tree.is_sparse else tree.F
    cdef Py_ssize_t m = tree.max_items
    cdef tree_search counted
    cdef double *end = memory
    if w == NULL:
        w = &counted
    w.waiting = <waiting_cell *> allocate(&end, tree.n_cells * sizeof(waiting_cell))
    w.tail = <tail_part *> allocate(&end, parts * sizeof(tail_part))
    w.found = <scored *> allocate(&end, tree.n_positions * sizeof(scored))
    w.mass = allocate(&end, (parts + parts // EXPFAM_BLOCK + 1) * sizeof(double))
    w.before = allocate(&end, padded(m) * sizeof(double))
    w.heavy = allocate(&end, padded(m) * sizeof(double))
    w.f = allocate(&end, m * sizeof(double))
    w.distance = allocate(&end, m * sizeof(double))
    w.phi = allocate(&end, room * sizeof(double))
    w.x = <float *> allocate(&end, room * sizeof(float))
    w.products = <float *> allocate(&end, m * sizeof(float))
    w.which = <int32_t *> allocate(&end, m * sizeof(int32_t))
    w.columns = <int32_t *> allocate(&end, room * sizeof(int32_t))
    w.n_waiting = w.n_tail = w.n_found = w.n_visits = w.n_scored = w.n_tails = 0
    w.tau, w.best = INFINITY, -INFINITY
    return end - memory


cdef void prepare(const cluster_tree *tree, tree_search *w, cluster_query *q, const double *phi, const int32_t *columns,
                  Py_ssize_t nnz) noexcept nogil:
    cdef Py_ssize_t t, f
    cdef double value, square = 0.0
    q.x, q.columns, q.phi, q.nnz, q.offset = w.x, columns, phi, nnz, 0.0
    if not tree.is_sparse:
        for f in range(tree.F):
            value = (phi[f] - tree.center[f]) * tree.inverse[f]
            w.x[f] = <float> value
            square += value * value
        q.offset = expfam_dot(phi, tree.shift, tree.F)
        q.error = UNIT * (min(tree.F, EXPFAM_FLOAT_CHUNK) + tree.F // EXPFAM_FLOAT_CHUNK + 8)
    else:
        for t in range(nnz):
            value = phi[t] * tree.inverse[columns[t]]
            w.x[t] = <float> value
            square += value * value
            q.offset += phi[t] * tree.shift[columns[t]]
        q.error = UNIT * (nnz + 8)
    q.norm = sqrt(square)


# ---- search --------------------------------------------------------------------------------------------------------

cdef inline double threshold(const tree_search *w) noexcept nogil:
    """Return the log mass below which a cell or cluster is left out."""
    return w.best - w.tau


cdef inline void leave(tree_search *w, double log_mass, int32_t what) noexcept nogil:
    w.tail[w.n_tail] = tail_part(log_mass, what)
    w.n_tail += 1


cdef inline void score(const cluster_tree *tree, const cluster_query *q, tree_search *w,
                       int32_t position) noexcept nogil:
    """Score a cluster in double precision and add it to `found`."""
    cdef double value = exact_score(tree, q, position)
    w.n_scored += 1
    w.best = value if value > w.best else w.best
    w.found[w.n_found] = scored(value, position)
    w.n_found += 1


cdef inline void wait(const cluster_tree *tree, tree_search *w, double bound, double f, double distance,
                      int32_t cell) noexcept nogil:
    w.waiting[w.n_waiting] = waiting_cell(bound, bound + tree.cells[cell].log_beta, f, distance, cell)
    w.n_waiting += 1


cdef inline bint is_out(const tree_search *w, double bound, double log_beta) noexcept nogil:
    """Say whether a cell or cluster is left out; a NaN is never left out."""
    return bound + log_beta < threshold(w)


cdef inline Py_ssize_t sift(const cluster_tree *tree, tree_search *w, const cluster_cell *cell, double base,
                            waiting_cell s) noexcept nogil:
    """Find the items of a cell that cannot be ruled out; return their number.

    The test uses the score of the representative of the cell, which is at most `base`. The other items join the tail.
    """
    cdef Py_ssize_t width = padded(cell.n_items), n = 0, j
    cdef const double *reach = tree.reaches + REACH_ROWS * <Py_ssize_t> cell.reach
    cdef const double *weight = reach + 6 * width
    cdef const tree_item *items = tree.items + cell.item
    cdef double limit = threshold(w)
    cdef bint is_left
    expfam_rises(reach, weight, width, base, s.distance, s.bound, w.before, w.heavy)
    for j in range(cell.n_items):               # no branch: half of them would be mispredicted; a NaN stays
        is_left = w.heavy[j] < limit
        w.tail[w.n_tail] = tail_part(w.heavy[j], items[j].what)
        w.n_tail += is_left
        w.which[n], w.before[n] = <int32_t> j, w.before[j]
        n += not is_left
    return n


cdef void expand(const cluster_tree *tree, const cluster_query *q, tree_search *w, waiting_cell s) noexcept nogil:
    """Score the children of a cell: add its clusters to `found` and its cells to `waiting`.

    The best of these cells is searched next.
    """
    cdef const cluster_cell *cell = &tree.cells[s.cell]
    cdef const cluster_cell *child
    cdef const tree_item *items = tree.items + cell.item
    cdef const tree_item *item
    cdef double base = s.f + q.error * q.norm * tree.theta_norm[cell.lo], bound, slack
    cdef Py_ssize_t j, n = 0, n_cells = 0, first = w.n_waiting, top
    n = sift(tree, w, cell, base, s)
    while n_cells < n and w.which[n_cells] < cell.n_cells:
        n_cells += 1
    if n:
        item_scores(tree, q, cell, w.which, n, w.products, w.f)
        w.n_visits += n
        for j in range(n):
            item = &items[w.which[j]]
            bound = w.f[j] - q.error * q.norm * item.norm + item.log_pi
            w.best = bound if bound > w.best else w.best
    if n_cells:
        near_distances(tree, q, cell, w.which, w.f, n_cells, w.products, w.distance)
    for j in range(n):
        item = &items[w.which[j]]
        slack = q.error * q.norm * item.norm
        bound = w.f[j] + slack
        if j < n_cells:
            child = &tree.cells[item.cell]
            bound = bound + rise(&child.members, w.distance[j])
        bound = bound if bound < w.before[j] else w.before[j]
        if is_out(w, bound, item.log_beta):
            leave(w, bound + item.log_beta, item.cell if j < n_cells else -1 - item.position)
        elif j < n_cells:
            wait(tree, w, bound, w.f[j], w.distance[j], item.cell)
        else:
            score(tree, q, w, item.position)
    if cell.own >= 0:
        child = &tree.cells[cell.own]
        bound = base + rise(&child.members, s.distance)
        wait(tree, w, bound if bound < s.bound else s.bound, s.f, s.distance, cell.own)
    else:
        bound = base if base < s.bound else s.bound
        if is_out(w, bound, tree.log_pi[cell.lo]):
            leave(w, bound + tree.log_pi[cell.lo], -1 - cell.lo)
        else:
            score(tree, q, w, cell.lo)
    top = first
    for j in range(first, w.n_waiting):
        if w.waiting[j].mass > w.waiting[top].mass:
            top = j
    if w.n_waiting > first:
        s = w.waiting[top]
        w.waiting[top] = w.waiting[w.n_waiting - 1]
        w.waiting[w.n_waiting - 1] = s


cdef void begin(const cluster_tree *tree, const cluster_query *q, tree_search *w) noexcept nogil:
    """Start a search: only the root is in `waiting`."""
    cdef double f, distance, bound
    w.n_waiting = w.n_tail = w.n_found = 0
    root_score(tree, q, w.products, &f, &distance)
    w.n_visits += 1
    bound = f + q.error * q.norm * tree.theta_norm[tree.cells[0].lo] + rise(&tree.cells[0].members, distance)
    wait(tree, w, bound, f, distance, 0)


cdef void search(const cluster_tree *tree, const cluster_query *q, tree_search *w) noexcept nogil:
    """Fill `found` and `tail`; w.best must be a lower bound of the largest log weight."""
    cdef waiting_cell s
    begin(tree, q, w)
    while w.n_waiting:
        w.n_waiting -= 1
        s = w.waiting[w.n_waiting]
        if s.mass < threshold(w):
            leave(w, s.mass, s.cell)
        else:
            expand(tree, q, w, s)


# ---- draws ---------------------------------------------------------------------------------------------------------

cdef int32_t fall(const cluster_tree *tree, const cluster_query *q, tree_search *w, int32_t what,
                  double left) noexcept nogil:
    """Return the member of a part of the tail whose true weight contains `left`, or -1.

    Weights are relative to the best one.
    """
    cdef Py_ssize_t p, lo = -1 - what, hi = -what
    if what >= 0:
        lo, hi = tree.cells[what].lo, tree.cells[what].hi
    for p in range(lo, hi):
        w.n_scored += 1
        left -= exp(exact_score(tree, q, p) - w.best)
        if left < 0.0:
            return <int32_t> p
    return -1


cdef int32_t draw_bounded(const cluster_tree *tree, const cluster_query *q, tree_search *w,
                          philox_stream *rng) noexcept nogil:
    """Draw the position of a cluster from the exact law by branch and bound.

    Returns -1 if no weight is finite.
    """
    cdef double known = 0.0, rest = 0.0, u, top = -INFINITY
    cdef Py_ssize_t j
    cdef int32_t p
    search(tree, q, w)
    for j in range(w.n_found):
        top = w.found[j].score if w.found[j].score > top else top
    if not -INFINITY < top < INFINITY:
        return -1
    w.best = top
    for j in range(w.n_found):
        w.found[j].score = exp(w.found[j].score - top)
        known += w.found[j].score
    if not known < INFINITY:
        return -1
    for j in range(w.n_tail):
        w.mass[j] = w.tail[j].log_mass
    rest = expfam_exp_blocks(w.mass, top, w.mass + w.n_tail, w.n_tail)
    while True:
        u = philox_double(rng) * (known + rest)
        if u < known or rest == 0.0:
            for j in range(w.n_found):
                u -= w.found[j].score
                if u < 0.0:
                    return w.found[j].position
            j = w.n_found - 1               # u < known, but rounding left a rest
            while w.found[j].score == 0.0:
                j -= 1
            return w.found[j].position
        w.n_tails += 1
        u -= known
        for j in range(w.n_tail):
            if u < w.mass[j]:
                p = fall(tree, q, w, w.tail[j].what, u)
                if p >= 0:
                    return p
                break
            u -= w.mass[j]


cdef inline double lifted_rise(const cluster_query *q, double radius) noexcept nogil:
    """Return the largest possible f_z - f_c at a distance of `radius` in (theta, g)."""
    return radius * sqrt(1.0 + q.norm * q.norm)


cdef void open_cell(const cluster_tree *tree, const cluster_query *q, tree_search *w, waiting_cell s) noexcept nogil:
    """Score all children of a cell: write `which`, the scores `f` and the envelopes `before`."""
    cdef const cluster_cell *cell = &tree.cells[s.cell]
    cdef const tree_item *item
    cdef Py_ssize_t j
    for j in range(cell.n_items):
        w.which[j] = <int32_t> j
    if cell.n_items:
        item_scores(tree, q, cell, w.which, cell.n_items, w.products, w.f)
    w.n_visits += cell.n_items
    for j in range(cell.n_items):
        item = &tree.items[cell.item + j]
        w.before[j] = w.f[j] + q.error * q.norm * item.norm
        if item.cell >= 0:
            w.before[j] += lifted_rise(q, tree.cells[item.cell].lifted)
        w.before[j] = w.before[j] if w.before[j] < s.bound else s.bound


cdef inline double own_envelope(const cluster_tree *tree, const cluster_query *q, waiting_cell s) noexcept nogil:
    """Return the envelope of the members of a cell that are not in its items.

    They are a smaller cell of the same representative, or the representative itself.
    """
    cdef const cluster_cell *cell = &tree.cells[s.cell]
    cdef double bound = s.f + q.error * q.norm * tree.theta_norm[cell.lo]
    if cell.own >= 0:
        bound += lifted_rise(q, tree.cells[cell.own].lifted)
    return bound if bound < s.bound else s.bound


cdef void open_frontier(const cluster_tree *tree, const cluster_query *q, tree_search *w) noexcept nogil:
    """Find the largest cells whose envelopes are within a factor e of their members.

    These cells are put into `waiting`, and single clusters into `found`.
    """
    cdef waiting_cell s
    cdef const tree_item *item
    cdef Py_ssize_t i = 0, j
    w.n_waiting = w.n_found = 0
    s.cell, s.distance = 0, 0.0
    root_score(tree, q, w.products, &s.f, &s.distance)
    w.n_visits += 1
    s.bound = s.f + q.error * q.norm * tree.theta_norm[tree.cells[0].lo] + lifted_rise(q, tree.cells[0].lifted)
    wait(tree, w, s.bound, s.f, 0.0, 0)
    while i < w.n_waiting:
        s = w.waiting[i]
        if not lifted_rise(q, tree.cells[s.cell].lifted) <= 1.0 or tree.cells[s.cell].n_items == 0:
            open_cell(tree, q, w, s)
            w.waiting[i].cell = -1
            for j in range(tree.cells[s.cell].n_items):
                item = &tree.items[tree.cells[s.cell].item + j]
                if item.cell >= 0:
                    wait(tree, w, w.before[j], w.f[j], 0.0, item.cell)
                else:
                    score(tree, q, w, item.position)
            if tree.cells[s.cell].own >= 0:
                wait(tree, w, own_envelope(tree, q, s), s.f, 0.0, tree.cells[s.cell].own)
            else:
                score(tree, q, w, tree.cells[s.cell].lo)
        i += 1


cdef int32_t descend(const cluster_tree *tree, const cluster_query *q, tree_search *w, waiting_cell s,
                     philox_stream *rng) noexcept nogil:
    """Draw the position of a member of a cell by the shares of its envelope.

    Returns -1 if the draw falls on a share that belongs to no member.
    """
    cdef const cluster_cell *cell
    cdef const tree_item *item
    cdef Py_ssize_t j
    cdef int32_t position
    cdef double u, parent, envelope
    while True:
        cell = &tree.cells[s.cell]
        open_cell(tree, q, w, s)
        parent = s.bound + cell.log_beta
        u = philox_double(rng)
        position = -1
        for j in range(cell.n_items):
            item = &tree.items[cell.item + j]
            envelope = w.before[j] + item.log_beta
            u -= exp(envelope - parent)
            if u < 0.0:
                break
        if u < 0.0:
            if item.cell >= 0:
                s = waiting_cell(w.before[j], envelope, w.f[j], 0.0, item.cell)
                continue
            position = item.position
        else:
            s.bound = own_envelope(tree, q, s)
            envelope = s.bound + tree.log_pi[cell.lo] if cell.own < 0 else s.bound + tree.cells[cell.own].log_beta
            u -= exp(envelope - parent)
            if u >= 0.0:
                return -1
            if cell.own >= 0:
                s.cell = cell.own
                continue
            position = cell.lo
        w.n_scored += 1
        return position if philox_double(rng) < exp(exact_score(tree, q, position) - envelope) else -1


cdef int32_t draw_rejected(const cluster_tree *tree, const cluster_query *q, tree_search *w,
                           philox_stream *rng) noexcept nogil:
    """Draw the position of a cluster from the exact law by rejection from cells.

    Returns -1 if no weight is finite.
    """
    cdef double top = -INFINITY, known = 0.0, rest = 0.0, u
    cdef Py_ssize_t j
    cdef int32_t p
    w.best = -INFINITY
    open_frontier(tree, q, w)
    top = w.best
    for j in range(w.n_waiting):
        if w.waiting[j].cell >= 0:
            top = max(top, w.waiting[j].bound + tree.cells[w.waiting[j].cell].log_beta)
    if not -INFINITY < top < INFINITY:
        return -1
    for j in range(w.n_found):
        w.found[j].score = exp(w.found[j].score - top)
        known += w.found[j].score
    for j in range(w.n_waiting):
        w.mass[j] = 0.0
        if w.waiting[j].cell >= 0:
            w.mass[j] = exp(w.waiting[j].bound + tree.cells[w.waiting[j].cell].log_beta - top)
        rest += w.mass[j]
    if not 0.5 <= known + rest < INFINITY:
        return -1
    while True:
        u = philox_double(rng) * (known + rest)
        for j in range(w.n_found):
            u -= w.found[j].score
            if u < 0.0:
                return w.found[j].position
        for j in range(w.n_waiting):
            u -= w.mass[j]
            if u < 0.0:
                break
        if u < 0.0:
            p = descend(tree, q, w, w.waiting[j], rng)
            if p >= 0:
                return p
        w.n_tails += 1

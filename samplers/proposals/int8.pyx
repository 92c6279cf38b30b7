"""Proposal for dense families by products of small integers.

The score of a cluster, <phi(x), Theta> - G + log prior mass, is linear in phi. So both sides are rounded to eight bits,
each row with its own scale, and 64 clusters are scored by one pass of integer products over groups of four features.
Parts that are the same for all clusters are left out, numbers of single clusters are exact, and the features are
balanced so that rounding errors are small (Ahmed et al. 2012 score by hashes of the same product).

With phi' = phi - mean and theta' = Theta - centre,
<phi, Theta> = <phi, centre> [the same for all] + <mean, theta'> [a number per cluster] + <phi' c, theta' / c>.

If a cluster has few data, the conditional law of a datum is like a Student distribution, and linear scores are not
close to it. Therefore the scores only choose a short list of clusters, which are weighted by their exact predictives
under the same statistics. Linear scores are worst for empty clusters; these always have their exact predictive.

A draw costs O(K F / 64) instructions and one block of predictives. The row of a cluster costs O(F), besides its Theta.
"""

import numpy as np

from cpython.pycapsule cimport PyCapsule_New
from cython cimport final
from libc.math cimport INFINITY, exp, fabs, isfinite, log, rint
from libc.stdint cimport int8_t, int32_t, uint8_t
from libc.string cimport memcpy, memset
from numpy.random cimport bitgen_t

from expfam.amounts import counted
from expfam.contracts cimport (
    EXPFAM_ABI, EXPFAM_NEEDS_GIL, EXPFAM_NEW, EXPFAM_NUMERICAL, EXPFAM_OK, EXPFAM_RANGE, components_v1, proposal_v1,
)
from expfam.families.components cimport Components
from expfam.samplers.proposals.masses cimport Masses, mass_enter, mass_leave, mass_table
from expfam.samplers.proposals.moved cimport MovedRows, moved_rows
from expfam.families.natural cimport NaturalLaw, natural_law
from expfam.families.row_statistics cimport RowStatistics, row_statistics_v1
from expfam.structures.ground.arrays cimport in_lines
from expfam.structures.simd.blocks cimport EXPFAM_BLOCK
from expfam.structures.simd.float_softmax cimport expfam_float_exp_blocks, expfam_float_pick
from expfam.structures.simd.int8 cimport EXPFAM_INT8_GROUP, expfam_int8_scores
from expfam.structures.ground.team cimport Team
from expfam.structures.selection.top_l cimport top_row, top_work_size

from expfam.errors import CapabilityError, ResourceError
from expfam.families.natural import natural_law_of
from expfam.families.support import dense_rows
from expfam.params import Integer, Real
from expfam.samplers.proposals.base import Proposal
from expfam.samplers.proposals.snapshot import Snapshot
from expfam.structures.ground.stored import TINY, integers, numbers

# Up to this F the sum 127 * 127 * F is below 2**24, so integer scores are converted to floats without rounding.
cdef Py_ssize_t LARGEST_F = 1024
cdef Py_ssize_t N_PARTS = 16            # parts of a shift, which threads take
cdef Py_ssize_t PADDING = 16            # doubles between the scratch memory of two threads
cdef Py_ssize_t LARGEST_SHORTLIST = 1024
_TABLE_BUDGET = 1 << 30                  # largest number of bytes of the rounded data
_BLOCK_ENTRIES = 1 << 20                # entries of a block of phi
_N_TRIED = 256                          # data that are scored exactly to choose the temperature
_N_TRIED_COLUMNS = 32
_N_PILOT, _N_GROUPS = 2048, 32           # data and groups of the pilot


class Int8Proposal(Proposal):
    """Proposal that lists clusters by 8-bit linear scores and draws by exact predictives.

    Parameters
    ----------
    shortlist : int, default 16
        Number of clusters with data that get their exact predictives; 0 draws from the linear scores. Empty and new
        clusters always get their exact predictive.
    temperature : "auto" or float in (0, 1], default "auto"
        Factor of the log weights before they are exponentiated. "auto" is 1 with a shortlist. Without one it is the
        slope of a regression of exact on rounded scores, computed once for 256 data and clusters of a pilot partition.
    floor : float in (0, 1), default 0.01
        Share of the draws that choose any cluster, or a new one, with equal probability. It is used only with a
        shortlist; without one every log weight lies at most 80 below the largest.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, DiagonalGaussian, DirichletProcess, MixtureModel
    >>> from expfam.samplers import Int8Proposal
    >>> from expfam.samplers.proposals.handle import ProposalHandle
    >>> from expfam.samplers.proposals.snapshot import Snapshot
    >>> data = Dataset(np.array([[0.0], [0.1], [5.0], [5.1]]), DiagonalGaussian())
    >>> model = MixtureModel(data.family, DirichletProcess(alpha=1.0))
    >>> handle = ProposalHandle(Int8Proposal().bind(model, data, seed=0), "int8")
    >>> n, S = data.statistics(np.array([0, -1, 1, 1]), 2)
    >>> handle.refresh(Snapshot(data.family, n, [0, 1], lambda: S, log_weight=np.log(n), log_weight_new=0.0))
    >>> np.exp(handle.log_prob(1, 0, [0, 1, -1])).round(3)
    array([0.839, 0.004, 0.157])

    Notes
    -----
    q(k | i) = (1 - floor) w_k / sum w + floor / M, where M is the number of clusters that can be proposed. For clusters
    on the shortlist and empty ones w_k = exp(temperature (log mass + log predictive)); for all others w_k = 0.

    Centre, balance and temperature depend only on data and hyper-parameters, by a pilot partition of up to 2048 data
    around 32 of them. If they depended on labels, the state would choose the kernel that moves it. The balance is c =
    (variance of Theta over clusters / variance of phi)^(1/4), which minimises the product of both norms.

    For the families of the package, and tables of them, single moves are made in C. For von Mises-Fisher and
    exponential clusters, and families of plugins, each changed cluster costs a call of `expected_natural`. Ahmed, Ravi,
    Smola, Narayanamurthy 2012, "FastEx: hash clustering with exponential families".
    """

    modes = frozenset({"frozen", "crossfit", "removed", "included"})
    _constraints = {
        "shortlist": Integer(0, LARGEST_SHORTLIST), "temperature": ("auto", Real(0, 1, "(]")),
        "floor": Real(0, 1, why="for q must not vanish anywhere"),
    }

    def __init__(self, *, shortlist=16, temperature="auto", floor=0.01):
        self.shortlist, self.temperature, self.floor = shortlist, temperature, floor

    def memory(self, model, data, n_clusters):
        """Return the bytes of the rounded data and of the tables, without those of the components."""
        F = data.n_statistics
        width = n_clusters + EXPFAM_BLOCK
        return _table_bytes(data) + width * (_padded(F) + 8 * F + 8 + 12)

    def check(self, model, data):
        """Refuse settings out of range, and families and sizes that the tables cannot hold.

        Raises
        ------
        ValueError
            A setting is out of range; the message names it.
        CapabilityError
            The family has no `expected_natural`, or there are more than 1024 features.
        ResourceError
            The rounded data need more than 1 GiB.
        """
        super().check(model, data)
        model.family.require("variational", "Int8Proposal")
        if data.n_statistics > LARGEST_F:
            raise CapabilityError(
                f"Int8Proposal takes up to {LARGEST_F} features; family {model.family.name!r} has"
                f" {data.n_statistics} on these data"
            )
        if _table_bytes(data) > _TABLE_BUDGET:
            raise ResourceError(
                f"Int8Proposal keeps {counted(_table_bytes(data), 'byte')} of rounded statistics "
                f"({counted(data.n_rows, 'row')} of {data.n_statistics}), its budget is {_TABLE_BUDGET}: cluster a "
                "part of the data, or choose another proposal"
            )

    def bind(self, model, data, *, seed):
        """Make the bound proposal and round the data; refuse what `check` refuses."""
        self.check(model, data)
        return BoundInt8(self, model, data)


def _padded(F):
    return (F + 3) // 4 * 4


def _table_bytes(data):
    return data.n_rows * (_padded(data.n_statistics) + 8)


# ---- the working object ----------------------------------------------------------------------------------------------


ctypedef struct int8_state:
    # clusters, by column
    uint8_t *rows                   # (blocks, groups, 64, 4): see int8.h
    float *scales                   # (width,)
    float *offsets                  # (width,) <mean, theta'> - G
    double *S                       # (width, F)
    # data
    int8_t *codes                   # (N, 4 groups)
    float *units                    # (N,)
    float *alone                    # (N,) without a shortlist: log predictive of an empty cluster minus <phi, centre>
    # fixed when the data are rounded
    const double *centre            # (F,) of Theta
    const double *mean              # (F,) of phi
    const double *balance           # (F,)
    const double *inverse           # (F,) 1 / balance; 0 for constant columns of phi
    double temperature
    double floor                    # 0 without a shortlist
    Py_ssize_t F
    Py_ssize_t n_groups
    Py_ssize_t n_rows
    Py_ssize_t shortlist
    Py_ssize_t width                # number of columns of the tables, a multiple of 64
    Py_ssize_t n_open               # number of columns that can be proposed
    Py_ssize_t n_empty              # number of these without data, which all have the same weight
    Py_ssize_t first_empty          # the first column without data that can be proposed
    mass_table *masses
    components_v1 components
    const natural_law *law
    row_statistics_v1 statistics    # of the rows of the data
    # the datum that is held out
    Py_ssize_t held
    Py_ssize_t held_slot
    uint8_t *saved_row
    double *saved_S
    float saved_scale
    float saved_offset
    double *theta                   # (theta_size,) scratch memory for changes of rows: theta, and a row of entries
    Py_ssize_t theta_size
    double *law_work


ctypedef struct int8_weights:       # q of one datum, in the caller's scratch memory
    float *scores                   # (width,) scores; weights if there is no shortlist
    float *sums
    Py_ssize_t *columns             # (m,) listed columns; the first empty one stands for all empty ones
    double *weights                 # (m,) weight of each; for the empty ones that of one column
    Py_ssize_t m
    double total


cdef inline uint8_t *entry_of(const int8_state *s, Py_ssize_t k) noexcept nogil:
    """Return the first four entries of a row; the next four are EXPFAM_INT8_GROUP bytes later."""
    return s.rows + k // EXPFAM_BLOCK * s.n_groups * EXPFAM_INT8_GROUP + k % EXPFAM_BLOCK * 4


cdef void put_row(int8_state *s, Py_ssize_t k, const uint8_t *row) noexcept nogil:
    cdef uint8_t *entry = entry_of(s, k)
    cdef Py_ssize_t g
    for g in range(s.n_groups):
        memcpy(entry + g * EXPFAM_INT8_GROUP, row + 4 * g, 4)


cdef void read_row(const int8_state *s, Py_ssize_t k, uint8_t *row) noexcept nogil:
    cdef const uint8_t *entry = entry_of(s, k)
    cdef Py_ssize_t g
    for g in range(s.n_groups):
        memcpy(row + 4 * g, entry + g * EXPFAM_INT8_GROUP, 4)


cdef void put_empty(int8_state *s, Py_ssize_t k) noexcept nogil:
    """Give a column without data the score -inf; its weight is computed separately."""
    cdef Py_ssize_t g
    for g in range(s.n_groups):
        memset(entry_of(s, k) + g * EXPFAM_INT8_GROUP, 128, 4)
    s.scales[k], s.offsets[k] = 0.0, -INFINITY
    memset(s.S + k * s.F, 0, s.F * sizeof(double))


cdef int round_row(const int8_state *s, const double *theta, double g, uint8_t *row, float *scale,
                   float *offset) noexcept nogil:
    """Round a cluster's parameters to entries with 128 added; compute their scale and offset.

    The offset is the part of the score that is not in the product.
    """
    cdef double largest = 0.0, total = -g, v
    cdef float step
    cdef Py_ssize_t f
    for f in range(s.F):
        v = theta[f] - s.centre[f]
        total += v * s.mean[f]
        v = fabs(v * s.inverse[f])
        largest = v if v > largest else largest
    step = <float> (largest / 127.0)
    if not isfinite(<float> total) or not isfinite(step):
        return EXPFAM_NUMERICAL
    scale[0], offset[0] = step, <float> total
    memset(row, 128, 4 * s.n_groups)
    if not largest > 0.0:
        return EXPFAM_OK
    for f in range(s.F):
        v = rint((theta[f] - s.centre[f]) * s.inverse[f] * (127.0 / largest))
        row[f] = <uint8_t> (<int> v + 128)
    return EXPFAM_OK


cdef void round_datum(const int8_state *s, const double *phi, int8_t *code, float *unit) noexcept nogil:
    cdef double largest = 0.0, u
    cdef Py_ssize_t f
    memset(code, 0, 4 * s.n_groups)
    for f in range(s.F):
        u = fabs((phi[f] - s.mean[f]) * s.balance[f])
        largest = u if u > largest else largest
    unit[0] = <float> (largest / 127.0)
    if not unit[0] > 0.0:       # all entries are 0; a division by it would be infinite
        return
    for f in range(s.F):
        code[f] = <int8_t> <int> rint((phi[f] - s.mean[f]) * s.balance[f] * (127.0 / largest))


cdef void count_open(int8_state *s) noexcept nogil:
    cdef const float *bias = s.masses.bias
    cdef int32_t n = 0, n_empty = 0
    cdef Py_ssize_t k
    for k in range(s.masses.width):
        n += bias[k] > -INFINITY
        n_empty += (bias[k] > -INFINITY) & (s.masses.n[k] == 0)
    s.n_open, s.n_empty, s.first_empty = n, n_empty, s.masses.new_column
    if n_empty and not bias[s.first_empty] > -INFINITY:
        s.first_empty = 0
        while s.masses.n[s.first_empty] or not bias[s.first_empty] > -INFINITY:
            s.first_empty += 1


cdef int change_row(int8_state *s, Py_ssize_t i, Py_ssize_t k, double sign) noexcept nogil:
    """Update statistics and row of a column by one datum, after its count was changed."""
    cdef int code
    if s.masses.n[k] == 0:
        put_empty(s, k)
        return EXPFAM_OK
    code = s.statistics.add(s.statistics.self, i, sign, s.S + k * s.F)
    return code if code else law_row(s, k, s.theta, s.law_work)


cdef int law_row(int8_state *s, Py_ssize_t k, double *theta, double *work) noexcept nogil:
    """Compute the row of a column from its statistics; `theta` and `work` are scratch memory."""
    cdef uint8_t *row = <uint8_t *> (theta + s.F)
    cdef double g = 0.0
    cdef int code = s.law.at(s.law, <double> s.masses.n[k], s.S + k * s.F, theta, &g, work)
    if not code:
        code = round_row(s, theta, g, row, s.scales + k, s.offsets + k)
    if not code:
        put_row(s, k, row)
    return code


cdef int shift_columns(int8_state *s, const moved_rows *m, Py_ssize_t start, Py_ssize_t stop, bint has_law,
                       double *work, Py_ssize_t *at) noexcept nogil:
    """Add and remove the data of the columns at places start..stop-1.

    Their masses are set already. With `has_law` their rows are computed too; `at` is the column of a failure.
    """
    cdef Py_ssize_t j, k
    cdef int code = EXPFAM_OK
    for j in range(start, stop):
        k = m.slots[j]
        if s.masses.n[k] == 0:
            put_empty(s, k)
            continue
        s.statistics.add_rows(s.statistics.self, m.entering + m.first_entering[j],
                              m.first_entering[j + 1] - m.first_entering[j], 1.0, s.S + k * s.F, work)
        s.statistics.add_rows(s.statistics.self, m.leaving + m.first_leaving[j],
                              m.first_leaving[j + 1] - m.first_leaving[j], -1.0, s.S + k * s.F, work)
        if has_law and not code:
            code = law_row(s, k, work, work + s.theta_size)
            at[0] = k
    return code


ctypedef struct shifts:
    int8_state *s
    const moved_rows *m
    const Py_ssize_t *parts     # (n, 2) first and last place of each part
    bint has_law
    double *work                # of each thread
    Py_ssize_t work_size
    Py_ssize_t *failed          # column of each part that failed; -1 for none


cdef void shift_part(void *job, Py_ssize_t item, Py_ssize_t thread) noexcept nogil:
    """Add and remove the data of the columns of a part."""
    cdef shifts *d = <shifts *> job
    cdef Py_ssize_t at = -1
    if shift_columns(d.s, d.m, d.parts[2 * item], d.parts[2 * item + 1], d.has_law, d.work + thread * d.work_size, &at):
        d.failed[item] = at


cdef int set_columns(int8_state *s, const moved_rows *m) noexcept nogil:
    """Give the components the new sums of all columns that data entered or left."""
    cdef Py_ssize_t j, k
    cdef int code = EXPFAM_OK
    for j in range(m.n_slots):
        k = m.slots[j]
        code = code | s.statistics.set_sums(s.statistics.self, k, <double> s.masses.n[k], s.S + k * s.F)
    return code


# ---- the law of a draw -----------------------------------------------------------------------------------------------


cdef int weigh(const int8_state *s, Py_ssize_t i, double *work, int8_weights *q) noexcept nogil:
    """Compute the weights of the columns for datum i; `work` has `work_size` doubles."""
    cdef Py_ssize_t n_blocks = (s.masses.n_columns + EXPFAM_BLOCK - 1) // EXPFAM_BLOCK
    cdef Py_ssize_t k
    cdef float best, alone = 0.0
    q.scores = <float *> work
    q.sums = q.scores + s.width
    if s.held != i and s.held >= 0:
        return EXPFAM_RANGE
    best = expfam_int8_scores(
        s.rows, s.codes + i * 4 * s.n_groups, s.n_groups, s.units[i], s.scales, s.offsets, s.masses.bias,
        1.0 if s.shortlist else <float> s.temperature, q.scores, n_blocks,
    )
    if s.shortlist:
        return weigh_shortlist(s, i, work + s.width, q)
    if s.n_empty:
        alone = (s.alone[i] + s.masses.bias[s.first_empty]) * <float> s.temperature
        best = alone if alone > best else best
    if s.n_empty == 1:
        q.scores[s.first_empty] = alone
    elif s.n_empty:
        for k in range(s.masses.n_columns):
            if s.masses.n[k] == 0 and s.masses.bias[k] > -INFINITY:
                q.scores[k] = alone
    if not isfinite(best):
        return EXPFAM_NUMERICAL
    q.total = expfam_float_exp_blocks(q.scores, best, q.sums, n_blocks)
    return EXPFAM_OK


cdef int weigh_shortlist(const int8_state *s, Py_ssize_t i, double *work, int8_weights *q) noexcept nogil:
    """Weigh the columns of the largest scores, and an empty one, by their exact predictives."""
    cdef float *selecting = <float *> work
    cdef float *values = selecting + top_work_size(s.width)
    cdef int32_t *indices = <int32_t *> (values + s.shortlist)
    cdef Py_ssize_t n_columns = s.masses.n_columns, j
    cdef Py_ssize_t n_top = s.shortlist if s.shortlist < n_columns else n_columns
    cdef double largest = -INFINITY
    cdef int code
    work += top_work_size(s.width) // 2 + s.shortlist + 1
    q.columns = <Py_ssize_t *> work
    q.weights = work + s.shortlist + 1
    q.m, q.total = 0, 0.0
    if top_row(q.scores, n_columns, n_top, values, indices, selecting) == 0:
        for j in range(n_top):
            if values[j] > -INFINITY:
                q.columns[q.m] = indices[j]
                q.m += 1
    if s.n_empty:
        q.columns[q.m] = s.first_empty
        q.m += 1
    if q.m == 0:
        return EXPFAM_NUMERICAL
    work = q.weights + s.shortlist + 1
    code = s.components.log_predictive(s.components.self, i, q.columns, q.m, q.weights, work)
    for j in range(q.m):
        if code:
            return code
        if s.held >= 0 and q.columns[j] == s.held_slot:     # the components have not removed the datum
            code = s.components.log_predictive_self(s.components.self, i, s.held_slot, q.weights + j, work)
    if code:
        return code
    for j in range(q.m):
        q.weights[j] = s.temperature * (q.weights[j] + s.masses.bias[q.columns[j]])
        largest = q.weights[j] if q.weights[j] > largest else largest
    if not isfinite(largest):
        return EXPFAM_NUMERICAL
    for j in range(q.m):
        q.weights[j] = exp(q.weights[j] - largest)
        q.total += q.weights[j]
    if s.n_empty:
        q.total += (s.n_empty - 1) * q.weights[q.m - 1]
    return EXPFAM_OK if isfinite(q.total) else EXPFAM_NUMERICAL


cdef inline Py_ssize_t column_of(const int8_state *s, Py_ssize_t k) noexcept nogil:
    """Return the column of a slot or of a new cluster, or -1 if it cannot be proposed."""
    cdef Py_ssize_t column = s.masses.new_column if k == EXPFAM_NEW else k
    if column < 0 or column >= s.masses.n_columns or not s.masses.bias[column] > -INFINITY:
        return -1
    if k != EXPFAM_NEW and column == s.masses.new_column:
        return -1
    return column


cdef double probability(const int8_state *s, const int8_weights *q, Py_ssize_t column) noexcept nogil:
    cdef double share = 0.0
    cdef Py_ssize_t j
    if not s.shortlist:
        return q.scores[column] / q.total
    if s.masses.n[column] == 0:
        column = s.first_empty
    for j in range(q.m):
        if q.columns[j] == column:
            share = q.weights[j]
    return (1.0 - s.floor) * share / q.total + s.floor / s.n_open


cdef Py_ssize_t ranked(const int8_state *s, Py_ssize_t rank, bint is_empty) noexcept nogil:
    """Return the open column of the given rank among all open columns or the empty ones."""
    cdef Py_ssize_t j, last = 0
    for j in range(s.masses.n_columns):
        if s.masses.bias[j] > -INFINITY and not (is_empty and s.masses.n[j]):
            last = j
            if rank == 0:
                break
            rank -= 1
    return last


cdef Py_ssize_t pick(const int8_state *s, const int8_weights *q, double u) noexcept nogil:
    """Draw a column by one uniform number u in [0, 1).

    Numbers below the floor choose among all open columns.
    """
    cdef Py_ssize_t j, last = 0
    cdef double left
    if not s.shortlist:
        return expfam_float_pick(q.scores, q.sums, q.total, u, s.masses.n_columns)
    if u < s.floor:
        return ranked(s, <Py_ssize_t> (u / s.floor * s.n_open), False)
    left = (u - s.floor) / (1.0 - s.floor) * q.total
    for j in range(q.m):
        if q.weights[j] > 0.0:
            last = j                    # by rounding errors `left` may exceed the last weight
            if left < q.weights[j] or (s.n_empty and j == q.m - 1):
                break
            left -= q.weights[j]
    if s.n_empty > 1 and last == q.m - 1:
        return ranked(s, <Py_ssize_t> (left / q.weights[last]), True)
    return q.columns[last]


cdef int int8_draw(void *self, Py_ssize_t i, Py_ssize_t k_old, bitgen_t *rng, Py_ssize_t *k_new, double *log_back,
                   double *work) noexcept nogil:
    cdef int8_state *s = <int8_state *> self
    cdef int8_weights q
    cdef Py_ssize_t old, drawn
    cdef int code
    if not 0 <= i < s.n_rows:
        return EXPFAM_RANGE
    old = column_of(s, k_old)
    if old < 0:
        return EXPFAM_RANGE
    code = weigh(s, i, work, &q)
    if code:
        return code
    drawn = pick(s, &q, rng.next_double(rng.state))
    k_new[0] = EXPFAM_NEW if drawn == s.masses.new_column else drawn
    log_back[0] = 0.0 if drawn == old else log(probability(s, &q, old) / probability(s, &q, drawn))
    return EXPFAM_OK


cdef int int8_log_prob(void *self, Py_ssize_t i, Py_ssize_t k_old, const Py_ssize_t *ks, Py_ssize_t m, double *out,
                       double *work) noexcept nogil:
    cdef int8_state *s = <int8_state *> self
    cdef int8_weights q
    cdef Py_ssize_t j, column
    cdef int code
    if not 0 <= i < s.n_rows:
        return EXPFAM_RANGE
    code = weigh(s, i, work, &q)
    if code:
        return code
    if not s.shortlist:                 # in double precision, so that the numbers of the slots do not matter
        q.total = 0.0
        for j in range(s.masses.n_columns):
            q.total += q.scores[j]
    for j in range(m):
        column = column_of(s, ks[j])
        out[j] = log(probability(s, &q, column)) if column >= 0 else -INFINITY
    return EXPFAM_OK


# ---- single moves ----------------------------------------------------------------------------------------------------


cdef int int8_hold_out(void *self, Py_ssize_t i, Py_ssize_t k) noexcept nogil:
    """Remove datum i from the tables, but not from the components.

    These can predict a member given the others, and so a rejection needs no work.
    """
    cdef int8_state *s = <int8_state *> self
    cdef int code
    if s.held >= 0 or not 0 <= i < s.n_rows or not 0 <= k < s.width or s.masses.n[k] < 1:
        return EXPFAM_RANGE
    read_row(s, k, s.saved_row)
    memcpy(s.saved_S, s.S + k * s.F, s.F * sizeof(double))
    s.saved_scale, s.saved_offset = s.scales[k], s.offsets[k]
    s.held, s.held_slot = i, k
    mass_leave(s.masses, k)
    count_open(s)
    code = change_row(s, i, k, -1.0)
    if code:
        int8_restore(self, i, k)
    return code


cdef int int8_restore(void *self, Py_ssize_t i, Py_ssize_t k) noexcept nogil:
    cdef int8_state *s = <int8_state *> self
    if s.held != i or s.held_slot != k:
        return EXPFAM_RANGE
    mass_enter(s.masses, k)
    count_open(s)
    put_row(s, k, s.saved_row)
    memcpy(s.S + k * s.F, s.saved_S, s.F * sizeof(double))
    s.scales[k], s.offsets[k] = s.saved_scale, s.saved_offset
    s.held = -1
    return EXPFAM_OK


cdef int int8_moved(void *self, Py_ssize_t i, Py_ssize_t source, Py_ssize_t target) noexcept nogil:
    cdef int8_state *s = <int8_state *> self
    cdef int code
    if source == target:
        return int8_restore(self, i, source)
    # one of the columns must remain empty
    if s.held != i or s.held_slot != source or not 0 <= target < s.width - 1:
        return EXPFAM_RANGE
    code = s.components.add(s.components.self, i, target)
    if not code:
        code = s.components.remove(s.components.self, i, source)
        if code:
            s.components.remove(s.components.self, i, target)
    if code:
        return code
    s.held = -1
    mass_enter(s.masses, target)
    count_open(s)
    return change_row(s, i, target, 1.0)


@final
cdef class BoundInt8:
    """A bound `Int8Proposal`: tables of one run.

    The settings are checked already. `is_exact` is False, because shifts have rounding errors: a `refresh` may give
    other last bits.
    """

    cdef proposal_v1 api
    cdef int8_state s
    cdef readonly object capsule
    cdef object family, data, temperature_setting
    cdef Masses masses
    cdef Components components
    cdef NaturalLaw law
    cdef RowStatistics statistics
    # arrays into which the pointers of the state point
    cdef object rows, scales, offsets, S, codes, units, alone, fixed, scratch
    cdef public Team team               # of shifts, or None; the numbers do not depend on it

    def __init__(self, settings, model, data):
        cdef int8_state *s = &self.s
        self.data, self.family = data, model.family
        self.temperature_setting = settings.temperature
        s.F, s.n_rows = data.n_statistics, data.n_rows
        s.n_groups = _padded(s.F) // 4
        s.shortlist = settings.shortlist
        s.floor = settings.floor if settings.shortlist else 0.0
        s.temperature = 1.0
        s.held = -1
        self.masses = Masses(model.weights, data.n_rows)
        s.masses = &self.masses.t
        self.components = Components(model.family, data, self.masses.width)
        self.statistics = RowStatistics(self.components.owner, data)
        s.statistics = self.statistics.c
        self.codes = None
        self._make_scratch()
        self._set_family(model.family)
        self._allocate()
        self._fix()
        self.api.abi_version = EXPFAM_ABI
        self.api.struct_size = sizeof(proposal_v1)
        self.api.self = <void *> s
        self.api.draw, self.api.log_prob = int8_draw, int8_log_prob
        self.api.hold_out, self.api.restore, self.api.moved = int8_hold_out, int8_restore, int8_moved
        self._update_sizes()
        self.capsule = PyCapsule_New(&self.api, "expfam.proposal_v1", NULL)

    @property
    def is_exact(self):
        """False: shifts have rounding errors."""
        return False

    @property
    def temperature(self):
        """Factor of the log weights, computed if the setting is "auto"."""
        return self.s.temperature

    # ---- memory ------------------------------------------------------------------------------------------------------

    def _make_scratch(self):
        cdef int8_state *s = &self.s
        padded = 4 * s.n_groups
        s.theta_size = s.F + padded // 8 + 1
        theta = np.zeros(s.theta_size)
        saved_row, saved_S = np.zeros(padded, np.uint8), np.zeros(s.F)
        cdef double[::1] theta_view = theta, S_view = saved_S
        cdef uint8_t[::1] saved_view = saved_row
        s.theta, s.saved_S, s.saved_row = &theta_view[0], &S_view[0], &saved_view[0]
        self.scratch = [theta, saved_S, saved_row, None]

    def _allocate(self):
        """Allocate tables with a column for each mass, and copy the old columns.

        New columns are empty clusters.
        """
        cdef int8_state *s = &self.s
        cdef Py_ssize_t old = s.width, k
        width = self.masses.width
        rows = _aligned_bytes(width * 4 * s.n_groups)
        scales, offsets, S = np.zeros(width, np.float32), np.zeros(width, np.float32), np.zeros((width, s.F))
        if old:
            rows[: len(self.rows)] = self.rows
            scales[:old], offsets[:old], S[:old] = self.scales, self.offsets, self.S
        self.rows, self.scales, self.offsets, self.S = rows, scales, offsets, S
        cdef uint8_t[::1] rows_view = rows
        cdef float[::1] scales_view = scales, offsets_view = offsets
        cdef double[:, ::1] S_view = S
        s.rows, s.scales, s.offsets, s.S = &rows_view[0], &scales_view[0], &offsets_view[0], &S_view[0, 0]
        s.width = width
        for k in range(old, s.width):
            put_empty(s, k)

    def _update_sizes(self):
        """Update components, their struct and the size of scratch memory after a change of sizes."""
        self.components.reserve(self.s.width)
        self.s.components = self.components.c
        needs_gil = self.components.needs_gil
        self.api.flags = EXPFAM_NEEDS_GIL if needs_gil else 0
        width, shortlist = self.s.width, self.s.shortlist
        # scores and sums; selection with values and numbers; columns and weights; scratch memory of the components
        theirs = max(self.components.c.work_size, 1)
        self.api.work_size = width + top_work_size(width) // 2 + 3 * (shortlist + 1) + theirs

    def reserve(self, Py_ssize_t n_slots):
        """Allocate memory for `n_slots` slots."""
        if self.masses.reserve(n_slots):
            self._allocate()
            self._update_sizes()

    # ---- numbers that are fixed for a run ---------------------------------------------------------------------------

    def _set_family(self, family):
        """Use the present hyper-parameters of a family."""
        cdef double[::1] work
        self.family = family
        self.law = natural_law_of(family)
        self.s.law = self.law.law
        work = np.zeros(self.s.law.work_size + 1)
        self.scratch[3] = work
        self.s.law_work = &work[0]

    def _fix(self):
        """Compute centre, balance, rounded data and temperature from the data and the family."""
        mean, variance = self._moments_of_phi()
        n, S = self._pilot(mean, variance)
        Theta = self._natural(n, S)[0]
        self._set_fixed(Theta.mean(axis=0), mean, _balance(Theta.var(axis=0), variance), variance > 0)
        self._choose_temperature(n, S)

    def _pilot(self, mean, variance):
        """Compute statistics of groups of near data.

        BLAS is not used, because its sums may depend on the number of threads.
        """
        data = self.data
        rows = np.unique(np.linspace(0, data.n_rows - 1, min(_N_PILOT, data.n_rows)).astype(np.intp))
        phi = dense_rows(self.family.sufficient_statistics(data.X[rows]))
        z = (phi - mean) * np.where(variance > 0, 1.0 / np.sqrt(np.where(variance > 0, variance, 1.0)), 0.0)
        centres = z[np.linspace(0, len(z) - 1, min(_N_GROUPS, (len(z) + 7) // 8)).astype(np.intp)]
        for _ in range(3):
            squares = np.square(centres).sum(axis=1)
            group = (squares - 2.0 * np.einsum("if,gf->ig", z, centres)).argmin(axis=1)
            n = np.bincount(group, minlength=len(centres)).astype(np.float64)
            sums = np.zeros_like(centres)
            np.add.at(sums, group, z)
            centres = np.where(n[:, None] > 0, sums / np.maximum(n, 1.0)[:, None], centres)
        S = np.zeros((len(centres), phi.shape[1]))
        np.add.at(S, group, phi)
        return n[n > 0], S[n > 0]

    def _set_fixed(self, centre, mean, balance, varies):
        inverse = np.where(varies, 1.0 / balance, 0.0)
        self.fixed = [np.ascontiguousarray(a, dtype=np.float64) for a in (centre, mean, balance, inverse)]
        cdef int8_state *s = &self.s
        cdef double[::1] view
        view = self.fixed[0]
        s.centre = &view[0]
        view = self.fixed[1]
        s.mean = &view[0]
        view = self.fixed[2]
        s.balance = &view[0]
        view = self.fixed[3]
        s.inverse = &view[0]
        self._round_data()
        self._judge_alone()

    def _blocks(self):
        step = max(1, _BLOCK_ENTRIES // self.s.F)
        for start in range(0, self.s.n_rows, step):
            yield start, self.data.phi(start, min(start + step, self.s.n_rows))

    def _moments_of_phi(self):
        mean = sum(block.sum(axis=0) for _, block in self._blocks()) / self.s.n_rows
        squares = 0.0
        for _, block in self._blocks():
            squares = squares + np.square(block - mean).sum(axis=0)
        return mean, squares / self.s.n_rows

    def _round_data(self):
        cdef int8_state *s = &self.s
        if self.codes is None:
            self.codes = np.empty((s.n_rows, 4 * s.n_groups), dtype=np.int8)
            self.units = np.empty(s.n_rows, dtype=np.float32)
        cdef int8_t[:, ::1] codes = self.codes
        cdef float[::1] units = self.units
        cdef const double[:, ::1] phi
        cdef Py_ssize_t i, first
        s.codes, s.units = &codes[0, 0], &units[0]
        for start, block in self._blocks():
            phi, first = block, start
            with nogil:
                for i in range(phi.shape[0]):
                    round_datum(s, &phi[i, 0], &codes[first + i, 0], &units[first + i])

    def _judge_alone(self):
        """Compute the scores of an empty cluster on the scale of the linear scores."""
        if self.s.shortlist:
            return
        self.alone = np.empty(self.s.n_rows, dtype=np.float32)
        cdef float[::1] view = self.alone
        self.s.alone = &view[0]
        for start, block in self._blocks():     # the evidence of one datum is its predictive in an empty cluster
            exact = self.family.log_marginal(np.ones(len(block)), block)
            self.alone[start : start + len(block)] = exact - np.einsum("if,f->i", block, self.fixed[0])

    def _natural(self, n, S):
        """Compute Theta (m, F) and G (m,) of clusters, in C if the law of the family is compiled."""
        if not self.law.is_compiled:
            Theta, G = self.family.expected_natural(n, S)
            return np.ascontiguousarray(Theta, dtype=np.float64), np.ascontiguousarray(G, dtype=np.float64)
        pairs = [self.law(count, row) for count, row in zip(n, S)]
        return np.array([theta for theta, _ in pairs]).reshape(len(n), -1), np.array([g for _, g in pairs])

    def _choose_temperature(self, n, S):
        """Set the temperature to the slope of exact on rounded scores of the clusters (n, S).

        For each datum the clusters of the best rounded scores count.
        """
        self.s.temperature = 1.0 if self.temperature_setting == "auto" else self.temperature_setting
        if self.temperature_setting != "auto" or self.s.shortlist:
            return
        self.refresh(Snapshot(self.family, n, np.arange(len(n)), lambda: S, log_weight=np.log(n)))
        both = squares = 0.0
        rows = np.unique(np.linspace(0, self.s.n_rows - 1, min(_N_TRIED, self.s.n_rows)).astype(np.intp))
        for i in rows:
            rounded = self.scores(i)[: len(n)].astype(np.float64)
            best = np.argsort(-rounded, kind="stable")[:_N_TRIED_COLUMNS]
            exact = self.components.log_predictive(i, best) + self.masses.bias[best]
            x, y = rounded[best] - rounded[best].mean(), exact - exact.mean()
            both, squares = both + np.sum(x * y), squares + np.sum(x * x)
        self.s.temperature = float(np.clip(both / squares, 0.05, 1.0)) if squares > 0 else 1.0

    # ---- statistics --------------------------------------------------------------------------------------------------

    def refresh(self, snapshot):
        """Make the tables from the statistics of a snapshot."""
        if snapshot.family is not self.family:
            self.components.rebind(snapshot.family)
            self._set_family(snapshot.family)
            self._judge_alone()
        if self.masses.set(snapshot):
            self._allocate()
        self._update_sizes()
        self.s.held = -1
        cdef Py_ssize_t k
        for k in range(self.s.width):
            put_empty(&self.s, k)
        at = np.flatnonzero(snapshot.n > 0)
        columns = snapshot.slots[at]
        self.S[columns] = dense_rows(snapshot.S[at])
        self._write(columns)
        self.components.load(np.bincount(snapshot.slots, snapshot.n, self.s.width), self.S)
        self.s.components = self.components.c
        count_open(&self.s)

    def shift(self, snapshot, added, removed):
        """Update the statistics by data that were added and removed.

        Only rows of changed clusters are computed.
        """
        if snapshot.family is not self.family:
            self.refresh(snapshot)
            return
        self.reserve(int(added[1].max(initial=0)) + 1)      # slots of `added` may be missing in the snapshot
        if self.masses.set(snapshot):
            self._allocate()
            self._update_sizes()
        self.s.held = -1
        # snapshot.S is not read: it would be summed over all data again for every block
        move = self._move_columns if self.statistics.c.set_sums != NULL else self._move_rows
        if move(added, removed):
            count_open(&self.s)
        else:
            self.refresh(snapshot)

    def _move_columns(self, added, removed):
        """Change each column by all its data; return False if the components refuse."""
        cdef MovedRows moved = MovedRows(added, removed, self.s.width)
        cdef int8_state *s = &self.s
        cdef bint has_law = self.law.is_compiled
        cdef Team team = self.team or Team()
        cdef Py_ssize_t work_size = s.theta_size + max(s.statistics.work_size, s.law.work_size) + PADDING
        cdef Py_ssize_t[:, ::1] parts = np.array(moved.parts(N_PARTS), dtype=np.intp).reshape(-1, 2)
        cdef Py_ssize_t n_parts = parts.shape[0]
        cdef Py_ssize_t[::1] failed = np.full(max(n_parts, 1), -1, dtype=np.intp)
        cdef double[::1] work = np.empty(work_size * team.n_threads)
        cdef shifts job
        if n_parts:
            job = shifts(s, &moved.m, &parts[0, 0], has_law, &work[0], work_size, &failed[0])
            with nogil:
                team.share(shift_part, &job, n_parts)
        if set_columns(s, &moved.m):
            return False
        if not has_law:
            self._write(moved.slots[self.masses.n[moved.slots] > 0])
        for k in failed:
            if k >= 0:
                raise self._not_finite(k)
        return True

    def _move_rows(self, added, removed):
        """Change columns row by row; return False if the components refuse."""
        if not (self._move(added, 1.0) and self._move(removed, -1.0)):
            return False
        touched = np.unique(np.concatenate([added[1], removed[1]])).astype(np.intp)
        holds = self.masses.n[touched] > 0
        for k in touched[~holds]:
            put_empty(&self.s, k)
        self._write(touched[holds])
        return True

    def _write(self, columns):
        """Compute the rows of columns with data from their counts and statistics."""
        if not len(columns):
            return
        cdef int8_state *s = &self.s
        cdef const Py_ssize_t[::1] ks = np.ascontiguousarray(columns, dtype=np.intp)
        cdef const double[:, ::1] theta
        cdef const double[::1] g
        cdef uint8_t *row = <uint8_t *> (s.theta + s.F)
        cdef Py_ssize_t j = 0
        cdef int code = EXPFAM_OK
        if self.law.is_compiled:
            with nogil:
                for j in range(ks.shape[0]):
                    code = law_row(s, ks[j], s.theta, s.law_work)
                    if code:
                        break
        else:
            theta, g = self._natural(self.masses.n[columns].astype(np.float64), self.S[columns])
            with nogil:
                for j in range(ks.shape[0]):
                    code = round_row(s, &theta[j, 0], g[j], row, s.scales + ks[j], s.offsets + ks[j])
                    if code:
                        break
                    put_row(s, ks[j], row)
        if code:
            raise self._not_finite(ks[j])

    def _not_finite(self, k):
        return FloatingPointError(f"family {self.family.name!r}: the natural parameters of slot {k} are not finite")

    @property
    def pending(self):
        """Exception of a failed call of the proposal or of its components, or None."""
        each = (self.law.pending, self.statistics.pending, self.components.pending)
        return next((error for error in each if error is not None), None)

    @pending.setter
    def pending(self, error):
        self.law.pending = self.statistics.pending = self.components.pending = error

    def _move(self, moved, double sign):
        """Add or remove data one by one; return False if the components refuse."""
        cdef const Py_ssize_t[::1] rows = np.ascontiguousarray(moved[0], dtype=np.intp)
        cdef const Py_ssize_t[::1] slots = np.ascontiguousarray(moved[1], dtype=np.intp)
        cdef int8_state *s = &self.s
        cdef components_v1 *c = &s.components
        cdef Py_ssize_t j
        cdef int code = EXPFAM_OK
        with nogil:
            for j in range(rows.shape[0]):
                if sign > 0:
                    code = code | c.add(c.self, rows[j], slots[j])
                else:
                    code = code | c.remove(c.self, rows[j], slots[j])
                code = code | s.statistics.add(s.statistics.self, rows[j], sign, s.S + slots[j] * s.F)
        if code != EXPFAM_OK and self.pending is not None:
            error, self.pending = self.pending, None
            raise error
        return code == EXPFAM_OK

    # ---- scores and storage ------------------------------------------------------------------------------------------

    def scores(self, Py_ssize_t i):
        """Compute the rounded scores of the columns for one datum: (n_columns,) float32.

        Scores are in nats, up to a number that is the same for all columns; -inf for columns that cannot be proposed or
        hold no data.
        """
        if not 0 <= i < self.s.n_rows:
            raise IndexError(f"datum {i} does not exist: there are {self.s.n_rows}")
        out = np.empty(self.s.width, dtype=np.float32)
        cdef float[::1] view = out
        cdef int8_state *s = &self.s
        expfam_int8_scores(s.rows, s.codes + i * 4 * s.n_groups, s.n_groups, s.units[i], s.scales, s.offsets,
                           s.masses.bias, 1.0, &view[0], s.width // EXPFAM_BLOCK)
        return out[: self.masses.n_columns]

    def to_arrays(self):
        """Return the numbers that are fixed for a run; `refresh` makes everything else again."""
        centre, mean, balance, inverse = self.fixed
        return {
            "centre": centre.copy(),
            "mean": mean.copy(),
            "balance": balance.copy(),
            "varies": inverse > 0,
            "temperature": np.float64(self.s.temperature),
        }

    def from_arrays(self, arrays):
        """Restore the fixed numbers from the arrays of `to_arrays`; a `refresh` must follow."""
        F = self.s.F
        centre, mean = (numbers(arrays, name, (F,)) for name in ("centre", "mean"))
        balance, varies = numbers(arrays, "balance", (F,), low=TINY), integers(arrays, "varies", (F,), 0, 2)
        temperature = float(numbers(arrays, "temperature", (), low=TINY))
        self._set_fixed(centre, mean, balance, varies.astype(bool))
        self.s.temperature = temperature


def _balance(spread, variance):
    """Compute the fourth root of the ratio of two variances for each feature.

    It is limited to a factor of 20 about its geometric mean.
    """
    varies = variance > 0
    if not varies.any():
        return np.ones_like(variance)
    ratio = np.full_like(variance, np.nan)
    # equal clusters are replaced by clusters that differ by one standard deviation of each feature
    spread = spread if spread[varies].any() else np.where(varies, 1.0 / np.where(varies, variance, 1.0), 0.0)
    known = varies & (spread > 0)
    ratio[known] = 0.25 * (np.log(spread[known]) - np.log(variance[known]))
    middle = ratio[known].mean()
    ratio = np.where(known, ratio, np.where(varies, -np.inf, middle))
    return np.exp(np.clip(ratio, middle - np.log(20.0), middle + np.log(20.0)))


def _aligned_bytes(size):
    memory = in_lines(size, np.uint8)
    memory.fill(128)
    return memory

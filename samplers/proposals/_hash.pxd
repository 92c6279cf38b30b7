# The part of a bound hash proposal that counts and real-valued data share.

from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, uint64_t

from expfam.contracts cimport proposal_v1
from expfam.families.components cimport Components
from expfam.samplers.proposals.masses cimport Masses
from expfam.structures.hashing.sign_hash cimport SignHash

ctypedef int (*single_t)(void *, Py_ssize_t, Py_ssize_t) noexcept nogil
ctypedef int (*moved_t)(void *, Py_ssize_t, Py_ssize_t, Py_ssize_t) noexcept nogil

ctypedef struct scratch:
    float *bias                 # (width,) exact part of each score
    float *score                # (width,)
    float *sums                 # (width / 64,)
    float *top                  # (shortlist,)
    float *top_work             # (top_work_size(width),)
    int32_t *top_at             # (shortlist,)
    Py_ssize_t *ks              # (width,) candidates
    double *w                   # (width,) weights of the candidates
    uint64_t *code              # (n_words,)
    double *dots                # (n_bits,)
    double *values              # (longest,)
    int64_t *columns            # (longest,)
    double *inner               # scratch memory of the components
    double total


cdef class BoundHash:
    cdef proposal_v1 api
    cdef readonly object capsule
    cdef object raised                  # exception of a call from C, see `pending`
    cdef public object n_threads        # for the codes of the data; the result does not depend on it
    cdef readonly SignHash hash
    cdef readonly bint is_exact
    cdef readonly object temperature
    cdef object settings, model, family, data, seed
    cdef Masses masses
    cdef Components components          # None without a shortlist
    cdef Py_ssize_t n_words, n_features, width, shortlist, longest
    cdef Py_ssize_t held_datum, held_slot
    cdef double floor
    cdef float spread                   # error of a score per unit of a datum's norm, nats
    cdef object mean                    # (F,) mean of the data
    # set by the first snapshot
    cdef object centre, scale, n_bound
    cdef object _table
    cdef float *table                   # (n_bits + 1,) cosines times temperature
    # one entry for each datum
    cdef object _code, _norm, _factor, _fresh, _row, _share
    cdef uint64_t *code                 # (N, n_words), NULL if each draw computes its code
    cdef float *norm                    # (N,) norm of the centred and scaled datum u_i
    cdef float *factor                  # (N,) factor of the slopes
    cdef float *fresh                   # (N,) score of an empty cluster without its scalars
    cdef int32_t *row                   # (N,) first of the two rows of scalars in a score
    cdef float *share                   # (N, 2) factors of these two rows
    # one entry for each cluster
    cdef object _rows, _empties, _ties
    cdef uint64_t *planes               # (n_words, width)
    cdef float *norms                   # (width,), 0 for an empty cluster
    cdef float *slopes                  # (width,), 0 for an empty cluster
    cdef float *rows                    # (n_scalars, width)
    cdef Py_ssize_t n_scalars, n_empties, n_open
    cdef const Py_ssize_t *empties      # empty columns that the snapshot contains
    cdef uint64_t *ties                 # (n_words,)

    cdef const uint64_t *make_code(self, Py_ssize_t i, scratch *s) noexcept nogil


cdef char *address(array)


cdef inline void recount(BoundHash self) noexcept nogil:
    """Count the columns that can be proposed."""
    cdef const float *bias = self.masses.t.bias
    cdef Py_ssize_t j, k, new = self.masses.t.new_column
    cdef Py_ssize_t n = self.masses.t.n_live + (bias[new] > -INFINITY)
    for j in range(self.n_empties):
        k = self.empties[j]
        if k != new and self.masses.t.n[k] == 0 and bias[k] > -INFINITY:
            n += 1
    self.n_open = n     # not in place: with checks this would need the gil

# States of the chains: everything that a later step reads. Random numbers depend only on (seed, n_steps).

from libc.stdint cimport int32_t, int64_t

from expfam.families.components cimport Components


ctypedef struct slot_table:             # slots of the clusters; pointers into the arrays of a CollapsedState
    int64_t *counts                     # (capacity,) number of data in each slot
    double *log_mass                    # (capacity,) log(n + offset), -inf for an empty slot
    Py_ssize_t *free_slots              # (capacity,) stack of empty slots below n_slots, without the spare one
    Py_ssize_t n_free
    Py_ssize_t n_slots                  # slots in use are 0..n_slots-1
    Py_ssize_t n_live                   # number of clusters
    Py_ssize_t spare                    # empty slot below n_slots that stands for "a new cluster"; -1 if there is none
    Py_ssize_t capacity
    Py_ssize_t max_live                 # maximal number of clusters that the weights allow
    double offset


cdef void slot_enter(slot_table *t, Py_ssize_t k) noexcept nogil
cdef void slot_leave(slot_table *t, Py_ssize_t k) noexcept nogil
cdef bint slot_find_spare(slot_table *t) noexcept nogil
cdef void slot_claim(slot_table *t, Py_ssize_t k) noexcept nogil


cdef class CollapsedState:
    cdef public object model            # MixtureModel with a bound family
    cdef readonly object data           # Dataset
    cdef readonly object seed           # int, 64 bits
    cdef public object n_steps          # int
    cdef public object stamp            # int, raised whenever labels change
    cdef public dict memory             # key of a kernel -> its working object, or the arrays of one from a checkpoint
    cdef readonly Components components
    cdef readonly object labels         # (N,) int32 slot of each datum
    cdef readonly object counts         # (capacity,) int64
    cdef object log_mass, free_slots
    cdef slot_table slots
    cdef public double log_joint        # nats, without log-base; kept up to date by differences
    cdef public object n_moves          # single moves since the statistics were last recomputed
    cdef int32_t[::1] label_view
    cdef public object chain            # int, number of the chain among those of a fit

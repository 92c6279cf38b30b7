# The C interface between the samplers and compiled components or proposals: two versioned structs of function
# pointers, passed in capsules. They use plain C types only: plugin authors cimport this file, or copy the structs
# into C or Numba. A function pointer that is NULL raises an error that names it, unless the struct allows NULL.
# Rules and costs are in docs/plugins.md.

from libc.stdint cimport uint32_t
from numpy.random cimport bitgen_t

cdef enum:
    EXPFAM_ABI = 1
    EXPFAM_OK = 0
    EXPFAM_NUMERICAL = -1       # not finite, or no longer positive definite
    EXPFAM_RANGE = -2           # removing a datum that is not in the cluster; a slot beyond the capacity
    EXPFAM_PYTHON = -3          # the exception is stored in the owner's attribute `pending`
    EXPFAM_NEEDS_GIL = 1        # in flags: the functions take the gil; the caller then uses one thread
    EXPFAM_NEW = -1             # as k in a proposal: a cluster that has no slot yet

ctypedef struct components_v1:                     # capsule "expfam.components_v1"
    uint32_t abi_version                           # EXPFAM_ABI of the author's build
    uint32_t struct_size                           # sizeof in the author's build; later fields do not exist
    uint32_t flags
    uint32_t reserved
    void *self
    Py_ssize_t work_size                           # doubles each thread passes as `work`; read again after reserve()
    # Reading: any number of threads may call these while no thread writes. ks == NULL means the slots 0..m-1; ls of
    # log_merged is never NULL.
    int (*log_predictive)(void *self, Py_ssize_t i, const Py_ssize_t *ks, Py_ssize_t m,
                          double *out, double *work) noexcept nogil
    int (*log_predictive_self)(void *self, Py_ssize_t i, Py_ssize_t k,
                               double *out, double *work) noexcept nogil    # i is in k: given the other data of k
    int (*log_marginal)(void *self, const Py_ssize_t *ks, Py_ssize_t m, double *out, double *work) noexcept nogil
    int (*log_merged)(void *self, Py_ssize_t k, const Py_ssize_t *ls, Py_ssize_t m,
                      double *out, double *work) noexcept nogil             # of k and l together
    int (*log_remainder)(void *self, Py_ssize_t k, Py_ssize_t l,
                         double *out, double *work) noexcept nogil          # of k without the data of l
    # Writing: one thread at a time. After a result other than 0 nothing has been changed.
    int (*add)(void *self, Py_ssize_t i, Py_ssize_t k) noexcept nogil
    int (*remove)(void *self, Py_ssize_t i, Py_ssize_t k) noexcept nogil
    int (*absorb)(void *self, Py_ssize_t k, Py_ssize_t l) noexcept nogil    # k += l, l becomes empty
    int (*subtract)(void *self, Py_ssize_t k, Py_ssize_t l) noexcept nogil  # k -= l, l stays
    int (*clear)(void *self, Py_ssize_t k) noexcept nogil
    int (*swap)(void *self, Py_ssize_t k, Py_ssize_t l) noexcept nogil
    # Appended later: absent where struct_size ends before this field; may be NULL.
    # A hint that changes no result: i is soon scored under k, or moved from or to k; k = EXPFAM_NEW: i is soon read.
    void (*expect)(void *self, Py_ssize_t i, Py_ssize_t k) noexcept nogil
    # Writing: slot k then holds the n data `rows` and no others.
    int (*set_members)(void *self, const Py_ssize_t *rows, Py_ssize_t n, Py_ssize_t k) noexcept nogil
    # Reading: of the data of k, all together, under each of the slots ls; NULL means 0..m-1.
    int (*log_joint_predictive)(void *self, Py_ssize_t k, const Py_ssize_t *ls, Py_ssize_t m,
                                double *out, double *work) noexcept nogil

ctypedef struct proposal_v1:                       # capsule "expfam.proposal_v1"; first fields as above
    uint32_t abi_version
    uint32_t struct_size
    uint32_t flags
    uint32_t reserved
    void *self
    Py_ssize_t work_size
    # k_new ~ q(.|i); log_back = log q(k_old|i) - log q(k_new|i), both with the same cluster statistics
    int (*draw)(void *self, Py_ssize_t i, Py_ssize_t k_old, bitgen_t *rng,
                Py_ssize_t *k_new, double *log_back, double *work) noexcept nogil
    int (*log_prob)(void *self, Py_ssize_t i, Py_ssize_t k_old, const Py_ssize_t *ks, Py_ssize_t m,
                    double *out, double *work) noexcept nogil               # normalised
    # NULL unless the mode is "removed" or "included"
    int (*hold_out)(void *self, Py_ssize_t i, Py_ssize_t k) noexcept nogil  # forget i, which is in k
    int (*restore)(void *self, Py_ssize_t i, Py_ssize_t k) noexcept nogil   # rejected: as before hold_out, bit for bit
    int (*moved)(void *self, Py_ssize_t i, Py_ssize_t source, Py_ssize_t target) noexcept nogil

# Counter-based random numbers: one stream for every (seed, purpose; unit, step), the same words in C and in NumPy.

from libc.stdint cimport uint64_t
from numpy.random cimport bitgen_t

cdef extern from "philox.h" nogil:
    ctypedef struct philox_stream:
        bitgen_t bitgen
    void philox_init(philox_stream *s, uint64_t seed, uint64_t purpose) noexcept
    void philox_aim(philox_stream *s, uint64_t unit, uint64_t step) noexcept
    uint64_t philox_next64(philox_stream *s) noexcept
    double philox_double(philox_stream *s) noexcept

cdef enum Purpose:          # second half of the key; append only: other numbers would change all results of a seed
    MOVE = 1                # new cluster of a datum
    ACCEPT = 2              # acceptance of a move
    ORDER = 3               # order of the data in a sweep
    POSTERIOR = 4           # parameters and weights given labels
    START = 5               # first labels
    HYPER = 6               # hyper-parameters
    TABLES = 7              # hash planes, alias tables, trees
    CHOICE = 8              # kernel in a random scan
    PREDICT = 9             # draws from a fitted model
    SUBSAMPLE = 10          # data for tuning

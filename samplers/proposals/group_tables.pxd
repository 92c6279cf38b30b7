# Alias tables and short lists of clusters of groups, made from scores and kept in memory of their own.

from libc.stdint cimport uint32_t, uint64_t

from expfam.structures.selection.alias cimport alias_cell


ctypedef struct group_table:        # of one group; its last outcome is a draw by weight
    const alias_cell *cells
    const double *law               # probabilities of the outcomes
    const uint32_t *names           # cluster of each outcome, ascending
    Py_ssize_t size


ctypedef struct table_block:        # tables of consecutive groups, one after the other
    alias_cell *cells
    double *law
    uint32_t *names
    Py_ssize_t room                 # outcomes that there is memory for
    Py_ssize_t longest              # outcomes of the longest table
    double least_floor              # least probability of a draw by weight


ctypedef struct table_rules:        # what all tables of one refresh share
    const float *bias               # (K,) added to scores
    const double *shared_law        # (K,) probabilities of the draws by weight
    double floor                    # share of the draws by weight
    double cut                      # nats below the best score under which clusters belong to the floor
    Py_ssize_t K


ctypedef struct table_scratch:      # of one thread
    float *phi                      # (R, F)
    float *scores                   # (R, K)
    Py_ssize_t *chosen              # (R,)
    double *row                     # (F,)
    float *top
    float *value
    float *sum
    uint32_t *place
    double *share                   # (K + 1,) zero between groups
    uint64_t *bits                  # (K / 64 + 1,) zero between groups
    double *part
    uint32_t *turn
    uint64_t *word


cdef enum:
    TABLES_MADE = -1                # results of `make_tables`; a number from 0 on is a group without a finite score
    TABLES_NO_ROOM = -2


cdef class GroupTables:
    cdef readonly Py_ssize_t n_groups, n_blocks
    cdef group_table *groups
    cdef table_block *blocks


cdef class TableScratch:
    cdef readonly object sizes
    cdef list arrays
    cdef list free                  # numbers of scratch memory that no task uses now
    cdef table_scratch *of_thread

cdef Py_ssize_t make_tables(table_scratch *s, const table_rules *rules, float *scores, const Py_ssize_t *rows,
                            Py_ssize_t n_groups, table_block *block, group_table *out) noexcept nogil

# Cells of a cover tree and the split of one cell, as nogil functions over plain structs.

from libc.stdint cimport int32_t

cdef enum:
    UNSPLITTABLE = 1            # flag of a cell that would need too many children and stays whole
    SPLIT_DONE = 0
    SPLIT_REFUSED = 1           # the cell would need too many children
    SPLIT_MEMORY = -1

ctypedef struct cover_cell:     # one record of the structured array `CELL`
    float radius                # largest distance from the centre to a member; an upper bound after removals
    float pdist                 # distance to the parent's centre; 0 for the child with the same centre
    int32_t lo                  # position of the centre; the members of a leaf are at [lo, lo + size)
    int32_t size                # number of stored vectors below, removed centres included
    int32_t alive               # number of data below
    int32_t cap                 # number of positions that a leaf owns from lo on
    int32_t parent              # -1 for the root
    int32_t child               # first child, the one with the same centre; -1 for a leaf
    int32_t next                # next sibling or -1
    # d(centre, parent centre) <= base**(level + 1); radius <= base**level after a build, and at most that times
    # base / (base - 1) after inserts
    int32_t level
    int32_t flags

ctypedef struct split_space:    # arrays of a split; it reads and writes only the positions of its cell
    const float *rows           # (., F) vectors
    int32_t *order              # (N,) row at each position
    float *near                 # (N,) distance to the centre of the cell that contains the position
    int32_t *owner              # (N,) index of the nearest centre during a split
    int32_t *order_scratch      # (N,) scratch; also lists uncovered positions
    float *near_scratch         # (N,)
    Py_ssize_t F
    double base
    Py_ssize_t max_children
    double slack                # relative error of a computed distance

ctypedef struct candidate_list:  # members from which centres are chosen
    int32_t *position           # (n,)
    float *near                 # (n,) distance to the nearest centre
    int32_t *owner              # (n,) index of that centre
    float *tiles                # vectors in tiles of sixteen, see distance.h, if `is_tiled`
    Py_ssize_t n
    Py_ssize_t cap
    Py_ssize_t n_floats         # room in `tiles`
    bint is_tiled

ctypedef struct centre_list:    # a struct of zero bytes is an empty list
    int32_t *position           # (n,) position of each centre
    float *gap                  # (n,) distance from the newest centre
    int32_t *count              # (n,) number of members
    int32_t *start              # (n,) next free position of each child
    Py_ssize_t n
    Py_ssize_t cap
    candidate_list candidates

ctypedef struct census:         # counts of the members of a cell
    Py_ssize_t size
    Py_ssize_t covered          # number within the threshold of a centre at the last count
    Py_ssize_t by_others        # those covered by another centre than the cell's own
    Py_ssize_t uncovered        # number of the other members

ctypedef struct cell_list:
    cover_cell *cells
    Py_ssize_t n
    Py_ssize_t cap

cdef double level_at(double radius, double base, int32_t *level) noexcept nogil
cdef double distance(const split_space *space, Py_ssize_t p, Py_ssize_t q) noexcept nogil
cdef int append_cell(cell_list *cells, const cover_cell *cell) noexcept nogil
cdef int append_centre(centre_list *centres, Py_ssize_t position) noexcept nogil
cdef void free_centres(centre_list *centres) noexcept nogil
cdef int reserve(candidate_list *found, Py_ssize_t n, Py_ssize_t n_floats) noexcept nogil
cdef int load(const split_space *space, candidate_list *found) noexcept nogil
cdef Py_ssize_t farthest(const candidate_list *found) noexcept nogil
cdef Py_ssize_t relax(const split_space *space, centre_list *centres) noexcept nogil
cdef int choose(const split_space *space, centre_list *centres, const census *known, double threshold) noexcept nogil
cdef bint is_hopeless(const split_space *space, const centre_list *centres, const census *known, Py_ssize_t first,
                      double threshold) noexcept nogil
cdef Py_ssize_t begin(split_space *space, centre_list *centres, const cover_cell *cell, census *known) noexcept nogil
cdef int sample(const split_space *space, centre_list *centres, const cover_cell *cell,
                const census *known) noexcept nogil
cdef int measure_gaps(const split_space *space, const centre_list *centres, Py_ssize_t first,
                      float **gaps) noexcept nogil
cdef bint is_block_worth(const split_space *space, const centre_list *centres, Py_ssize_t first) noexcept nogil
cdef int assign(split_space *space, const centre_list *centres, Py_ssize_t first, const float *gaps, Py_ssize_t lo,
                Py_ssize_t hi) noexcept nogil
cdef int assign_blocks(split_space *space, const centre_list *centres, Py_ssize_t first, Py_ssize_t lo,
                       Py_ssize_t hi) noexcept nogil
cdef void count(split_space *space, const cover_cell *cell, double threshold, census *known) noexcept nogil
cdef void give_back(split_space *space, const cover_cell *cell) noexcept nogil
cdef int hand_out(split_space *space, centre_list *centres, const cover_cell *cell, Py_ssize_t number, int32_t level,
                  cell_list *children) noexcept nogil
cdef int split(split_space *space, centre_list *centres, const cover_cell *cell, Py_ssize_t number,
               cell_list *children) noexcept nogil
cdef int cover_small(split_space *space, centre_list *centres, const cover_cell *cell,
                     double threshold) noexcept nogil
cdef int cover_all(split_space *space, centre_list *centres, const cover_cell *cell, double threshold) noexcept nogil

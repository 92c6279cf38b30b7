# Bound on how much the density of a datum rises when two clusters are merged, for searches that defer scores.

from libc.stdint cimport uint32_t

cdef extern from *:
    """
    #define EXPFAM_GROWTH "expfam.log_growth_v1"
    """
    const char *GROWTH "EXPFAM_GROWTH"

# For every datum x:  log p(x | k and l together) <= (1 - slope) log p(x | k) + level,  0 <= slope < 1.
# The level includes the rounding errors of the log evidences on both sides.
ctypedef struct growth_line:
    double slope
    double level

# Computes the line for a merge of cluster l into cluster k that is lowest at log p(x | k) = depth. Returns 0, or a
# status < 0 of contracts.pxd. The function may use the writer's scratch.
ctypedef int (*line_of_growth)(void *self, Py_ssize_t k, Py_ssize_t l, double depth, growth_line *out) noexcept nogil

ctypedef struct log_growth_v1:      # capsule "expfam.log_growth_v1", attribute `growth` of components
    uint32_t abi_version            # EXPFAM_ABI
    uint32_t struct_size            # sizeof(log_growth_v1) of the build that fills it
    void *self                      # valid as long as the owner of the components lives
    line_of_growth line

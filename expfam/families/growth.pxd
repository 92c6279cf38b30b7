# How much the density of a datum can rise when a cluster takes in another one: asked by searches that defer scores.

from libc.stdint cimport uint32_t

cdef extern from *:
    """
    #define EXPFAM_GROWTH "expfam.log_growth_v1"
    """
    const char *GROWTH "EXPFAM_GROWTH"

# For every single datum x:  log p(x | k and l together) <= (1 - slope) log p(x | k) + level,  0 <= slope < 1.
# Rounding of all evidences that the two sides stand for is in the level.
ctypedef struct growth_line:
    double slope
    double level

# The line of cluster k that takes in cluster l, as low at log p(x | k) = depth as the family can say; 0, or a status
# < 0 of contracts.pxd. The writer's scratch may be used.
ctypedef int (*line_of_growth)(void *self, Py_ssize_t k, Py_ssize_t l, double depth, growth_line *out) noexcept nogil

ctypedef struct log_growth_v1:      # capsule "expfam.log_growth_v1", attribute `growth` of components
    uint32_t abi_version            # EXPFAM_ABI
    uint32_t struct_size            # sizeof(log_growth_v1) of the build that fills it
    void *self                      # lives as long as the owner of the components
    line_of_growth line

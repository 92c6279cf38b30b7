# Bounds of the evidence of two clusters as one, for searches that score in double only what may matter.

from libc.stdint cimport uint32_t

cdef extern from *:
    """
    #define EXPFAM_MERGED_BOUNDS "expfam.merged_bounds_v1"
    """
    const char *MERGED_BOUNDS "EXPFAM_MERGED_BOUNDS"

# The log evidence of clusters k and l as one, with n data, is  levels[n] - (half + n / 2) Q,  up to rounding. Bounds
# are kept by position: whoever asks writes clusters to positions, and asks for many positions at once.
ctypedef struct merged_bounds_v1:   # capsule "expfam.merged_bounds_v1"
    uint32_t abi_version            # EXPFAM_ABI
    uint32_t struct_size            # sizeof(merged_bounds_v1) of the build that fills it
    void *self                      # valid as long as the owner of the bounds lives
    # writes the statistics that slot k has now to a position
    void (*place)(void *self, Py_ssize_t at, Py_ssize_t k) noexcept nogil
    # copies a position to a smaller one
    void (*move)(void *self, Py_ssize_t at, Py_ssize_t to) noexcept nogil
    Py_ssize_t work_size            # floats of scratch memory that a thread brings
    Py_ssize_t block                # positions that are bounded together; `first` of `logs` is a multiple of it
    # prepares `work` for slot k; returns the part of Q that all its pairs share, -1e290 where nothing is known of it
    double (*begin)(void *self, Py_ssize_t k, float *work) noexcept nogil
    # writes lower bounds of the other part of Q, divided by ln 2, for at least the positions [first, stop) to `out`
    void (*logs)(void *self, const float *work, Py_ssize_t first, Py_ssize_t stop, float *out) noexcept nogil

# Sums of sufficient statistics in the order that `label_statistics` defines.

from libc.stdint cimport int32_t

cdef void add_segments_with(double[:, ::1] S, double[:, ::1] part, const double[:, ::1] phi, const int32_t[::1] labels,
                            const Py_ssize_t[::1] bounds) noexcept nogil

# Declarations of near_rows.h.

from libc.stdint cimport int32_t

cdef extern from "near_rows.h" nogil:
    enum: EXPFAM_NEAR_ROWS
    enum: EXPFAM_NEAR_POINTS
    Py_ssize_t (*expfam_rows_within)(const float *points, Py_ssize_t n_points, Py_ssize_t n_columns, const float *tiles,
                                     const float *norms, Py_ssize_t n_tiles, const float *most,
                                     int32_t *found) noexcept

# Declarations of row_tiles.h.

from libc.stdint cimport int32_t

cdef extern from "row_tiles.h" nogil:
    enum: EXPFAM_TILE_ROWS
    enum: EXPFAM_PACK
    void (*expfam_rows_nearest)(const float *tiles, Py_ssize_t n_tiles, Py_ssize_t n_columns, const float *packs,
                                const float *norms, Py_ssize_t n_packs, int32_t first, float *best,
                                int32_t *owner) noexcept
    void (*expfam_rows_reach)(const float *tiles, Py_ssize_t n_tiles, Py_ssize_t n_columns, const float *points,
                              Py_ssize_t n_points, const float *near, float *out, Py_ssize_t stride, double *sums,
                              Py_ssize_t n_sums) noexcept
    void (*expfam_rows_listed)(const float *row, const float *entries, Py_ssize_t n_columns, const float *norms,
                               const int32_t *places, Py_ssize_t n, float *out) noexcept

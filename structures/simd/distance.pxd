# Declarations of distance.h.

from libc.stdint cimport int32_t

cdef extern from "distance.h" nogil:
    double (*expfam_square_distance)(const float *a, const float *b, Py_ssize_t n) noexcept
    enum: EXPFAM_TILE
    Py_ssize_t (*expfam_tile_relax)(const float *tiles, Py_ssize_t n_tiles, const float *q, Py_ssize_t n_features,
                                    int32_t label, float *near, int32_t *owner) noexcept
    void expfam_tile_fill(const float **row, Py_ssize_t n_features, float *tile) noexcept

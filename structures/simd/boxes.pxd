# Declarations of boxes.h.

cdef extern from "boxes.h" nogil:
    enum: EXPFAM_BOX_LANES
    void (*expfam_box_squares)(const float *boxes, const float *q, Py_ssize_t n_features, float *squares) noexcept
    void (*expfam_point_squares)(const float *points, const float *q, Py_ssize_t n_features, float *squares) noexcept

# Declarations of list_scores.h.

cdef extern from "list_scores.h" nogil:
    double (*expfam_dot_difference)(const double *x, const double *a, const double *b, Py_ssize_t n) noexcept
    enum: EXPFAM_LIST_ENTRIES
    void (*expfam_list_scores)(const double *x, const double *table, const double *bias, Py_ssize_t n_features,
                               Py_ssize_t m, double *out) noexcept

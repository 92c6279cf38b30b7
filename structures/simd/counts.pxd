# Declarations of counts.h.

from libc.stdint cimport int32_t

cdef extern from "counts.h" nogil:
    enum: EXPFAM_LINE
    void (*expfam_count_products_int)(const int32_t *const *rows, const double *a, Py_ssize_t n_rows,
                                      double *p, Py_ssize_t n) noexcept
    void (*expfam_count_products_real)(const double *const *rows, const double *a, Py_ssize_t n_rows,
                                       double *p, Py_ssize_t n) noexcept
    void (*expfam_rising_products)(const double *z, Py_ssize_t m, double *p, Py_ssize_t n) noexcept
    void (*expfam_add_log_ratio)(const double *p, const double *q, double *out, Py_ssize_t n) noexcept
    void expfam_gathered_products_int(const int32_t *const *rows, const double *a, Py_ssize_t n_rows,
                                      const Py_ssize_t *ks, double *p, Py_ssize_t n) noexcept
    void expfam_gathered_products_real(const double *const *rows, const double *a, Py_ssize_t n_rows,
                                       const Py_ssize_t *ks, double *p, Py_ssize_t n) noexcept
    double expfam_load_shared(const double *address) noexcept
    void expfam_store_shared(double *address, double value) noexcept

# The instances by instruction set of kernels.h, as nogil functions.

from libc.stdint cimport int32_t

cdef extern from "kernels.h" nogil:
    enum: EXPFAM_BLOCK
    int expfam_isa() noexcept
    double expfam_log1(double x) noexcept
    double expfam_exp1(double x) noexcept
    double expfam_log_rising1(double z, double m, int shift) noexcept
    double (*expfam_dot)(const double *a, const double *b, Py_ssize_t n) noexcept
    void (*expfam_log)(const double *x, double *out, Py_ssize_t n) noexcept
    void (*expfam_log_rising)(const double *z, double m, int lift, double *out, Py_ssize_t n) noexcept
    void (*expfam_add_row)(double *out, const double *row, double factor, Py_ssize_t n) noexcept
    double (*expfam_max)(const double *x, Py_ssize_t n) noexcept
    double (*expfam_exp_blocks)(double *x, double shift, double *sums, Py_ssize_t n) noexcept
    Py_ssize_t expfam_pick(const double *w, const double *sums, double total, double uniform, Py_ssize_t n) noexcept

    # count tables
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

    # Gaussian clusters
    enum: EXPFAM_LANES
    int (*expfam_t_scan)(const double *x, const double *block, Py_ssize_t d, Py_ssize_t count, double *out) noexcept
    int (*expfam_sphere_scan)(const double *x, double offset, const double *block, Py_ssize_t d, Py_ssize_t count,
                              double *out) noexcept
    int (*expfam_gauss_scan)(const double *x, const double *block, Py_ssize_t d, Py_ssize_t count, double *out,
                             double *z) noexcept
    int (*expfam_cholesky)(double *a, Py_ssize_t d) noexcept
    int (*expfam_rank_one)(double *a, double *v, double sign, Py_ssize_t d) noexcept
    double (*expfam_solve_square)(const double *a, const double *reciprocal, double *v, Py_ssize_t d) noexcept
    void (*expfam_svec_add)(const double *S, const double *x, double sign, double *out, Py_ssize_t d) noexcept
    void (*expfam_scale)(const double *prior, const double *S, const double *first, const double *shift, double n,
                         const double *about, double weight, double *out, Py_ssize_t d) noexcept

    # geometry in single precision
    double (*expfam_square_distance)(const float *a, const float *b, Py_ssize_t n) noexcept

# The functions of kernels.h, one instance for each instruction set, as nogil functions.

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t

cdef extern from "kernels.h" nogil:
    enum: EXPFAM_BLOCK
    int expfam_isa() noexcept
    double expfam_log1(double x) noexcept
    double expfam_exp1(double x) noexcept
    uint64_t expfam_popcount1(uint64_t x) noexcept
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
    const double EXPFAM_HUGE
    int (*expfam_t_scan)(const double *x, const double *block, Py_ssize_t d, Py_ssize_t count, double *out) noexcept
    int (*expfam_sphere_scan)(const double *x, double offset, const double *block, Py_ssize_t d, Py_ssize_t count,
                              double *out) noexcept
    int (*expfam_gauss_scan)(const double *x, const double *block, Py_ssize_t d, Py_ssize_t count, double *out,
                             double *z) noexcept
    int (*expfam_cholesky)(double *a, Py_ssize_t d) noexcept
    enum: EXPFAM_PANEL
    Py_ssize_t expfam_panel_size(Py_ssize_t d) noexcept
    void expfam_panel_diagonal(const double *panels, double *diagonal, Py_ssize_t d) noexcept
    void expfam_panel_weave(const double *panels, double *out, Py_ssize_t d) noexcept
    double (*expfam_panel_square)(const double *panels, const double *v, Py_ssize_t d, double *z) noexcept
    int (*expfam_panel_scan)(const double *x, const double *block, const double *record, Py_ssize_t width,
                             Py_ssize_t d, Py_ssize_t count, double *out, double *scratch) noexcept
    int (*expfam_panel_rotate)(double *panels, const double *p, double sign, double least, Py_ssize_t d,
                               double *scratch) noexcept
    void (*expfam_panel_invert)(const double *a, const double *reciprocal, double *panels, Py_ssize_t d,
                                double *scratch) noexcept
    void (*expfam_svec_add)(const double *S, const double *x, double sign, double *out, Py_ssize_t d) noexcept
    void (*expfam_scale)(const double *prior, const double *S, const double *first, const double *shift, double n,
                         const double *about, double weight, double *out, Py_ssize_t d) noexcept

    # sign codes
    uint64_t expfam_mix64(uint64_t x) noexcept
    uint64_t EXPFAM_HASH_WORD
    void (*expfam_sign_keys)(const int64_t *coordinates, uint64_t seed, uint64_t *keys, Py_ssize_t n) noexcept
    void (*expfam_sign_words)(const uint64_t *keys, uint64_t p, uint64_t *words, Py_ssize_t n) noexcept
    void (*expfam_sign_add_32)(const uint64_t *words, const uint32_t *v, Py_ssize_t n, uint32_t *dots) noexcept
    void (*expfam_sign_add_64)(const uint64_t *words, const uint64_t *v, Py_ssize_t n, uint64_t *dots) noexcept
    void (*expfam_sign_add_real)(const uint64_t *words, const double *v, Py_ssize_t n, double *dots) noexcept
    void (*expfam_byte_add_32)(const uint64_t *words, const uint32_t *v, const uint32_t *table, Py_ssize_t n,
                               uint32_t *dots) noexcept
    void (*expfam_byte_add_64)(const uint64_t *words, const uint64_t *v, const uint64_t *table, Py_ssize_t n,
                               uint64_t *dots) noexcept
    void (*expfam_byte_add_real)(const uint64_t *words, const double *v, const double *table, Py_ssize_t n,
                                 double *dots) noexcept
    uint64_t (*expfam_sign_bits_32)(const int32_t *dots, const int32_t *centre, uint64_t tie) noexcept
    uint64_t (*expfam_sign_bits_64)(const int64_t *dots, const int64_t *centre, uint64_t tie) noexcept
    uint64_t (*expfam_sign_bits_real)(const double *dots, const double *centre, uint64_t tie) noexcept
    void (*expfam_hamming)(const uint64_t *planes, Py_ssize_t stride, const uint64_t *code, Py_ssize_t n_words,
                           int32_t *out, Py_ssize_t n) noexcept
    float (*expfam_sign_scores)(const uint64_t *planes, Py_ssize_t stride, const uint64_t *code, Py_ssize_t n_words,
                                const float *table, const float *norms, float norm, const float *slopes, float factor,
                                const float *bias, float *scores, Py_ssize_t n) noexcept
    double (*expfam_sign_weights)(float *x, float shift, float *sums, Py_ssize_t n_blocks) noexcept
    Py_ssize_t expfam_sign_pick(const float *w, const float *sums, double total, double uniform, Py_ssize_t n) noexcept
    # weighted min-hash
    void (*expfam_icws)(const double *draws, double log_x, double feature, double *best, double *level, double *winner,
                        Py_ssize_t n) noexcept
    # geometry in single precision
    void EXPFAM_PREFETCH(const void *address) noexcept
    double (*expfam_square_distance)(const float *a, const float *b, Py_ssize_t n) noexcept
    enum: EXPFAM_TILE
    Py_ssize_t (*expfam_tile_relax)(const float *tiles, Py_ssize_t n_tiles, const float *q, Py_ssize_t n_features,
                                    int32_t label, float *near, int32_t *owner) noexcept
    void expfam_tile_fill(const float **row, Py_ssize_t n_features, float *tile) noexcept

    # logs of counts as bytes or floats
    void (*expfam_byte_scores)(const uint8_t *const *rows, Py_ssize_t n_rows, const uint8_t *const *repeated,
                               const uint8_t *const *tables, Py_ssize_t n_repeated, float step, float *scores,
                               Py_ssize_t n) noexcept
    void (*expfam_between)(const float *a, const float *b, float part, float *out, Py_ssize_t n) noexcept
    void (*expfam_float_rows)(const float *const *rows, Py_ssize_t n_rows, float *scores, Py_ssize_t n) noexcept
    void expfam_prefetch(const void *start, Py_ssize_t n_bytes) noexcept
    float (*expfam_max_float)(const float *x, Py_ssize_t n) noexcept

    # int8 scores
    enum: EXPFAM_INT8_GROUP
    void (*expfam_int8_dots)(const uint8_t *rows, const int8_t *query, Py_ssize_t n_groups, int32_t *dots,
                             Py_ssize_t n_blocks) noexcept
    float (*expfam_int8_scores)(const uint8_t *rows, const int8_t *query, Py_ssize_t n_groups, float unit,
                                const float *scales, const float *offsets, const float *bias, float factor,
                                float *scores, Py_ssize_t n_blocks) noexcept

    # dense labels
    double (*expfam_narrow)(const double *x, const double *centre, const double *scale, const double *reach,
                            float *out, Py_ssize_t n) noexcept
    float (*expfam_tops)(const float *x, float *tops, Py_ssize_t n) noexcept
    double (*expfam_near_weights)(float *x, float shift, float depth, const float *tops, double *sums,
                                  Py_ssize_t n) noexcept
    Py_ssize_t expfam_near_pick(const float *w, const double *sums, double total, double uniform,
                                Py_ssize_t n) noexcept
    void (*expfam_near_scale)(float *x, float factor, const double *sums, Py_ssize_t n) noexcept
    void (*expfam_add_scaled)(float *out, const float *const *rows, const float *factors, Py_ssize_t n_rows,
                              Py_ssize_t n) noexcept
    void (*expfam_add_near)(double *out, const float *x, double factor, const double *sums, Py_ssize_t n) noexcept

    # prototypes
    double (*expfam_dot_difference)(const double *x, const double *a, const double *b, Py_ssize_t n) noexcept
    float (*expfam_biased_tops)(float *x, const float *bias, float *tops, Py_ssize_t n) noexcept
    Py_ssize_t expfam_above(const float *x, const float *tops, float least, Py_ssize_t n, float *values,
                            uint32_t *places) noexcept
    enum: EXPFAM_LIST_ENTRIES
    void (*expfam_list_scores)(const double *x, const double *table, const double *bias, Py_ssize_t n_features,
                               Py_ssize_t m, double *out) noexcept

    # products of single precision
    enum: EXPFAM_FLOAT_CHUNK
    void (*expfam_float_dots)(const float *x, Py_ssize_t n_features, const float *rows, const int32_t *which,
                              Py_ssize_t n, float *out) noexcept
    void (*expfam_sparse_dots)(const float *x, const int32_t *columns, Py_ssize_t nnz, const float *tile,
                               Py_ssize_t width, float *out) noexcept

    # reaches of cells
    enum: EXPFAM_REACHES
    void (*expfam_rises)(const double *reach, const double *weight, Py_ssize_t m, double base, double distance,
                         double most, double *out, double *mass) noexcept

/* Products of (count + pseudo-count) over the rows of a word-major table of counts, and products of rising factorials:
 * the predictive probabilities of Dirichlet-multinomial clusters. Instances: baseline, AVX2, AVX-512.
 *
 * A row has the counts of one word in all clusters, one for each slot, padded to EXPFAM_LINE entries and aligned to
 * 64 bytes. The logarithm of a product of up to 32 factors replaces 32 logarithms; the caller limits the number of
 * factors so that products stay normal. Rows of a table are far apart in memory and too short for the hardware
 * prefetcher, so the next four rows are prefetched while four are read.
 */
#ifndef EXPFAM_COUNTS_H
#define EXPFAM_COUNTS_H
#include "elementary.h"
#include "prefetch.h"

#define EXPFAM_LINE 16

/* p[j] *= prod_t (rows[t][j] + a[t]) for j < n, n a multiple of EXPFAM_LINE. */
#define EXPFAM_COUNT_PRODUCTS(NAME, TARGET, TYPE)                                                           \
    TARGET static void NAME(const TYPE *const *rows, const double *a, ptrdiff_t n_rows, double *p, ptrdiff_t n) { \
        ptrdiff_t t = 0;                                                                                    \
        for (; t + 4 <= n_rows; t += 4) {                                                                   \
            const TYPE *r0 = rows[t], *r1 = rows[t + 1], *r2 = rows[t + 2], *r3 = rows[t + 3];              \
            const TYPE *q0 = t + 4 < n_rows ? rows[t + 4] : r0, *q1 = t + 5 < n_rows ? rows[t + 5] : r1;    \
            const TYPE *q2 = t + 6 < n_rows ? rows[t + 6] : r2, *q3 = t + 7 < n_rows ? rows[t + 7] : r3;    \
            double a0 = a[t], a1 = a[t + 1], a2 = a[t + 2], a3 = a[t + 3];                                  \
            for (ptrdiff_t b = 0; b < n; b += EXPFAM_LINE) {                                                \
                EXPFAM_PREFETCH(q0 + b);                                                                    \
                EXPFAM_PREFETCH(q1 + b);                                                                    \
                EXPFAM_PREFETCH(q2 + b);                                                                    \
                EXPFAM_PREFETCH(q3 + b);                                                                    \
                EXPFAM_SIMD                                                                                 \
                for (ptrdiff_t j = b; j < b + EXPFAM_LINE; j++)                                             \
                    p[j] *= (((double)r0[j] + a0) * ((double)r1[j] + a1)) *                                 \
                            (((double)r2[j] + a2) * ((double)r3[j] + a3));                                  \
            }                                                                                               \
        }                                                                                                   \
        if (t + 2 <= n_rows) {                                                                              \
            const TYPE *r0 = rows[t], *r1 = rows[t + 1];                                                    \
            double a0 = a[t], a1 = a[t + 1];                                                                \
            EXPFAM_SIMD                                                                                     \
            for (ptrdiff_t j = 0; j < n; j++) p[j] *= ((double)r0[j] + a0) * ((double)r1[j] + a1);          \
            t += 2;                                                                                         \
        }                                                                                                   \
        if (t < n_rows) {                                                                                   \
            const TYPE *r0 = rows[t];                                                                       \
            double a0 = a[t];                                                                               \
            EXPFAM_SIMD                                                                                     \
            for (ptrdiff_t j = 0; j < n; j++) p[j] *= (double)r0[j] + a0;                                   \
        }                                                                                                   \
    }
#define EXPFAM_COUNT_PRODUCTS_INT(NAME, TARGET) EXPFAM_COUNT_PRODUCTS(NAME, TARGET, int32_t)
#define EXPFAM_COUNT_PRODUCTS_REAL(NAME, TARGET) EXPFAM_COUNT_PRODUCTS(NAME, TARGET, double)
EXPFAM_INSTANCES(EXPFAM_COUNT_PRODUCTS_INT, void, expfam_count_products_int,
                 (const int32_t *const *, const double *, ptrdiff_t, double *, ptrdiff_t))
EXPFAM_INSTANCES(EXPFAM_COUNT_PRODUCTS_REAL, void, expfam_count_products_real,
                 (const double *const *, const double *, ptrdiff_t, double *, ptrdiff_t))

/* p[j] = prod_{t < m} (z[j] + t) for j < n, n a multiple of EXPFAM_LINE. Four factors at a time are computed from
 * y (y + 3) = u and (y + 1) (y + 2) = u + 2, where all terms are positive. */
#define EXPFAM_RISING_PRODUCTS(NAME, TARGET)                                                                \
    TARGET static void NAME(const double *z, ptrdiff_t m, double *p, ptrdiff_t n) {                         \
        ptrdiff_t t = 0;                                                                                    \
        EXPFAM_SIMD                                                                                         \
        for (ptrdiff_t j = 0; j < n; j++) p[j] = 1.0;                                                       \
        for (; t + 4 <= m; t += 4) {                                                                        \
            double shift = (double)t;                                                                       \
            EXPFAM_SIMD                                                                                     \
            for (ptrdiff_t j = 0; j < n; j++) {                                                             \
                double y = z[j] + shift, u = y * (y + 3.0);                                                 \
                p[j] *= u * (u + 2.0);                                                                      \
            }                                                                                               \
        }                                                                                                   \
        for (; t < m; t++) {                                                                                \
            double shift = (double)t;                                                                       \
            EXPFAM_SIMD                                                                                     \
            for (ptrdiff_t j = 0; j < n; j++) p[j] *= z[j] + shift;                                         \
        }                                                                                                   \
    }
EXPFAM_INSTANCES(EXPFAM_RISING_PRODUCTS, void, expfam_rising_products, (const double *, ptrdiff_t, double *, ptrdiff_t))

/* out[j] += log(p[j] / q[j]), or log(p[j]) where q is NULL. */
#define EXPFAM_ADD_LOG_RATIO(NAME, TARGET)                                                                  \
    TARGET static void NAME(const double *p, const double *q, double *out, ptrdiff_t n) {                   \
        if (q) {                                                                                            \
            EXPFAM_SIMD                                                                                     \
            for (ptrdiff_t j = 0; j < n; j++) out[j] += expfam_log1(p[j] / q[j]);                           \
        } else {                                                                                            \
            EXPFAM_SIMD                                                                                     \
            for (ptrdiff_t j = 0; j < n; j++) out[j] += expfam_log1(p[j]);                                  \
        }                                                                                                   \
    }
EXPFAM_INSTANCES(EXPFAM_ADD_LOG_RATIO, void, expfam_add_log_ratio,
                 (const double *, const double *, double *, ptrdiff_t))

/* p[j] *= prod_t (rows[t][ks[j]] + a[t]), for a few slots; their entries are loaded together. */
EXPFAM_UNUSED static void expfam_gathered_products_int(const int32_t *const *rows, const double *a, ptrdiff_t n_rows,
                                                       const ptrdiff_t *ks, double *p, ptrdiff_t n) {
    for (ptrdiff_t j = 0; j < n; j++) {
        double product = p[j];
        for (ptrdiff_t t = 0; t < n_rows; t++) product *= (double)rows[t][ks[j]] + a[t];
        p[j] = product;
    }
}
EXPFAM_UNUSED static void expfam_gathered_products_real(const double *const *rows, const double *a, ptrdiff_t n_rows,
                                                        const ptrdiff_t *ks, double *p, ptrdiff_t n) {
    for (ptrdiff_t j = 0; j < n; j++) {
        double product = p[j];
        for (ptrdiff_t t = 0; t < n_rows; t++) product *= rows[t][ks[j]] + a[t];
        p[j] = product;
    }
}

/* A double that several reading threads may write with the same bits at the same time. */
EXPFAM_INLINE double expfam_load_shared(const double *address) {
#if defined(__GNUC__) || defined(__clang__)
    double value;
    __atomic_load(address, &value, __ATOMIC_RELAXED);
    return value;
#else
    return *(const volatile double *)address;
#endif
}
EXPFAM_INLINE void expfam_store_shared(double *address, double value) {
#if defined(__GNUC__) || defined(__clang__)
    __atomic_store(address, &value, __ATOMIC_RELAXED);
#else
    *(volatile double *)address = value;
#endif
}
#endif

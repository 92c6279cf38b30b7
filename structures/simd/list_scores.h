/* Scores of one datum in a list of clusters, and the difference of its scores in two clusters: inner products of the
 * sufficient statistics with natural parameters. Instances: baseline, AVX2, AVX-512.
 */
#ifndef EXPFAM_LIST_SCORES_H
#define EXPFAM_LIST_SCORES_H
#include "lane_sums.h"

/* Return <x, a - b> without the cancellation of two inner products. */
#if EXPFAM_WIDE
#define EXPFAM_DOT_DIFFERENCE(NAME, TARGET)                                                                 \
    TARGET static double NAME(const double *x, const double *a, const double *b, ptrdiff_t n) {             \
        double sum = 0.0;                                                                                   \
        ptrdiff_t i = 0;                                                                                    \
        if (n >= 8) {                                                                                       \
            expfam_doubles even = {0}, odd = {0}, u, v, w;                                                  \
            for (; i + 16 <= n; i += 16) {                                                                  \
                memcpy(&u, x + i, 64), memcpy(&v, a + i, 64), memcpy(&w, b + i, 64);                        \
                even += u * (v - w);                                                                        \
                memcpy(&u, x + i + 8, 64), memcpy(&v, a + i + 8, 64), memcpy(&w, b + i + 8, 64);            \
                odd += u * (v - w);                                                                         \
            }                                                                                               \
            for (; i + 8 <= n; i += 8) {                                                                    \
                memcpy(&u, x + i, 64), memcpy(&v, a + i, 64), memcpy(&w, b + i, 64);                        \
                even += u * (v - w);                                                                        \
            }                                                                                               \
            even += odd;                                                                                    \
            EXPFAM_SUM_DOUBLES(even, sum)                                                                   \
        }                                                                                                   \
        for (; i < n; i++) sum += x[i] * (a[i] - b[i]);                                                     \
        return sum;                                                                                         \
    }
#else
#define EXPFAM_DOT_DIFFERENCE(NAME, TARGET)                                                                 \
    TARGET static double NAME(const double *x, const double *a, const double *b, ptrdiff_t n) {             \
        double sum = 0.0;                                                                                   \
        EXPFAM_SIMD_SUM(sum)                                                                                \
        for (ptrdiff_t i = 0; i < n; i++) sum += x[i] * (a[i] - b[i]);                                      \
        return sum;                                                                                         \
    }
#endif
EXPFAM_INSTANCES(EXPFAM_DOT_DIFFERENCE, double, expfam_dot_difference,
                 (const double *, const double *, const double *, ptrdiff_t))

/* out = bias + sum_f x[f] table[f]: one datum and a list of clusters; rows of `table` have length `m`, m % 32 == 0. */
#define EXPFAM_LIST_ENTRIES 8
#if EXPFAM_WIDE
#define EXPFAM_LIST_SCORES(NAME, TARGET)                                                                    \
    TARGET static void NAME(const double *x, const double *table, const double *bias, ptrdiff_t n_features, \
                            ptrdiff_t m, double *out) {                                                     \
        for (ptrdiff_t first = 0; first < m; first += EXPFAM_LIST_ENTRIES) {                                \
            expfam_doubles s0, s1 = {0}, s2 = {0}, s3 = {0}, v; /* a sum must wait for the previous one */  \
            const double *row = table + first;                                                              \
            ptrdiff_t f = 0;                                                                                \
            memcpy(&s0, bias + first, 64);                                                                  \
            for (; f + 4 <= n_features; f += 4, row += 4 * m) {                                             \
                memcpy(&v, row, 64), s0 += x[f] * v;                                                        \
                memcpy(&v, row + m, 64), s1 += x[f + 1] * v;                                                \
                memcpy(&v, row + 2 * m, 64), s2 += x[f + 2] * v;                                            \
                memcpy(&v, row + 3 * m, 64), s3 += x[f + 3] * v;                                            \
            }                                                                                               \
            for (; f < n_features; f++, row += m) memcpy(&v, row, 64), s1 += x[f] * v;                      \
            s0 += s2;                                                                                       \
            s1 += s3;                                                                                       \
            s0 += s1;                                                                                       \
            memcpy(out + first, &s0, 64);                                                                   \
        }                                                                                                   \
    }
#else
#define EXPFAM_LIST_SCORES(NAME, TARGET)                                                                    \
    TARGET static void NAME(const double *x, const double *table, const double *bias, ptrdiff_t n_features, \
                            ptrdiff_t m, double *out) {                                                     \
        for (ptrdiff_t first = 0; first < m; first += EXPFAM_LIST_ENTRIES) {                                \
            double sums[EXPFAM_LIST_ENTRIES];                                                               \
            memcpy(sums, bias + first, sizeof sums);                                                        \
            for (ptrdiff_t f = 0; f < n_features; f++) {                                                    \
                const double factor = x[f], *row = table + f * m + first;                                   \
                EXPFAM_SIMD                                                                                 \
                for (int j = 0; j < EXPFAM_LIST_ENTRIES; j++) sums[j] += factor * row[j];                   \
            }                                                                                               \
            memcpy(out + first, sums, sizeof sums);                                                         \
        }                                                                                                   \
    }
#endif
EXPFAM_INSTANCES(EXPFAM_LIST_SCORES, void, expfam_list_scores,
                 (const double *, const double *, const double *, ptrdiff_t, ptrdiff_t, double *))
#endif

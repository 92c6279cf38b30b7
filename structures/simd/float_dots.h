/* Inner products of a dense or a sparse vector with many vectors, in single precision. Instances: baseline, AVX2,
 * AVX-512.
 */
#ifndef EXPFAM_FLOAT_DOTS_H
#define EXPFAM_FLOAT_DOTS_H
#include "lane_sums.h"
#include "prefetch.h"

/* out[j] = <x, rows[which[j]]> for rows of `n_features` floats. No product goes through more than 256 + n_features /
 * 256 + 1 additions, in any instance; callers use this to bound the rounding. */
#define EXPFAM_FLOAT_CHUNK 256
#if EXPFAM_WIDE
#define EXPFAM_FLOAT_DOTS(NAME, TARGET)                                                                     \
    TARGET static void NAME(const float *x, ptrdiff_t n_features, const float *rows, const int32_t *which,  \
                            ptrdiff_t n, float *out) {                                                      \
        for (ptrdiff_t j = 0; j < n; j += 4) {                                                              \
            const ptrdiff_t last = n - 1; /* repeats the last row if fewer than four are left */            \
            const float *r0 = rows + which[j] * n_features;                                                 \
            const float *r1 = rows + which[j + 1 < n ? j + 1 : last] * n_features;                          \
            const float *r2 = rows + which[j + 2 < n ? j + 2 : last] * n_features;                          \
            const float *r3 = rows + which[j + 3 < n ? j + 3 : last] * n_features;                          \
            float t[4] = {0.0f, 0.0f, 0.0f, 0.0f};                                                          \
            for (ptrdiff_t u = j + 4; u < j + 8 && u < n; u++) EXPFAM_PREFETCH(rows + which[u] * n_features); \
            for (ptrdiff_t b = 0; b < n_features; b += EXPFAM_FLOAT_CHUNK) {                                \
                ptrdiff_t stop = n_features - b < EXPFAM_FLOAT_CHUNK ? n_features : b + EXPFAM_FLOAT_CHUNK; \
                ptrdiff_t f = b;                                                                            \
                float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};                                                    \
                if (stop - b >= 16) {                                                                       \
                    expfam_floats s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0}, u, v;                             \
                    for (; f + 16 <= stop; f += 16) {                                                       \
                        memcpy(&u, x + f, 64);                                                              \
                        memcpy(&v, r0 + f, 64), s0 += u * v;                                                \
                        memcpy(&v, r1 + f, 64), s1 += u * v;                                                \
                        memcpy(&v, r2 + f, 64), s2 += u * v;                                                \
                        memcpy(&v, r3 + f, 64), s3 += u * v;                                                \
                    }                                                                                       \
                    EXPFAM_SUM_FLOATS(s0, sum[0])                                                           \
                    EXPFAM_SUM_FLOATS(s1, sum[1])                                                           \
                    EXPFAM_SUM_FLOATS(s2, sum[2])                                                           \
                    EXPFAM_SUM_FLOATS(s3, sum[3])                                                           \
                }                                                                                           \
                for (; f < stop; f++) {                                                                     \
                    sum[0] += x[f] * r0[f];                                                                 \
                    sum[1] += x[f] * r1[f];                                                                 \
                    sum[2] += x[f] * r2[f];                                                                 \
                    sum[3] += x[f] * r3[f];                                                                 \
                }                                                                                           \
                for (int u = 0; u < 4; u++) t[u] += sum[u];                                                 \
            }                                                                                               \
            for (ptrdiff_t u = 0; u < 4 && j + u < n; u++) out[j + u] = t[u];                               \
        }                                                                                                   \
    }
#else
#define EXPFAM_FLOAT_DOTS(NAME, TARGET)                                                                     \
    TARGET static void NAME(const float *x, ptrdiff_t n_features, const float *rows, const int32_t *which,  \
                            ptrdiff_t n, float *out) {                                                      \
        ptrdiff_t j = 0;                                                                                    \
        for (; j + 4 <= n; j += 4) {                                                                        \
            const float *r0 = rows + which[j] * n_features, *r1 = rows + which[j + 1] * n_features;         \
            const float *r2 = rows + which[j + 2] * n_features, *r3 = rows + which[j + 3] * n_features;     \
            float t0 = 0.0f, t1 = 0.0f, t2 = 0.0f, t3 = 0.0f;                                               \
            if (j + 8 <= n)                                                                                 \
                for (int u = 4; u < 8; u++) EXPFAM_PREFETCH(rows + which[j + u] * n_features);              \
            for (ptrdiff_t b = 0; b < n_features; b += EXPFAM_FLOAT_CHUNK) {                                \
                ptrdiff_t stop = n_features - b < EXPFAM_FLOAT_CHUNK ? n_features : b + EXPFAM_FLOAT_CHUNK; \
                float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;                                           \
                EXPFAM_PRAGMA(omp simd reduction(+ : s0, s1, s2, s3))                                       \
                for (ptrdiff_t f = b; f < stop; f++) {                                                      \
                    s0 += x[f] * r0[f];                                                                     \
                    s1 += x[f] * r1[f];                                                                     \
                    s2 += x[f] * r2[f];                                                                     \
                    s3 += x[f] * r3[f];                                                                     \
                }                                                                                           \
                t0 += s0;                                                                                   \
                t1 += s1;                                                                                   \
                t2 += s2;                                                                                   \
                t3 += s3;                                                                                   \
            }                                                                                               \
            out[j] = t0;                                                                                    \
            out[j + 1] = t1;                                                                                \
            out[j + 2] = t2;                                                                                \
            out[j + 3] = t3;                                                                                \
        }                                                                                                   \
        for (; j < n; j++) {                                                                                \
            const float *row = rows + which[j] * n_features;                                                \
            float total = 0.0f;                                                                             \
            for (ptrdiff_t b = 0; b < n_features; b += EXPFAM_FLOAT_CHUNK) {                                \
                ptrdiff_t stop = n_features - b < EXPFAM_FLOAT_CHUNK ? n_features : b + EXPFAM_FLOAT_CHUNK; \
                float sum = 0.0f;                                                                           \
                EXPFAM_SIMD_SUM(sum)                                                                        \
                for (ptrdiff_t f = b; f < stop; f++) sum += x[f] * row[f];                                  \
                total += sum;                                                                               \
            }                                                                                               \
            out[j] = total;                                                                                 \
        }                                                                                                   \
    }
#endif
EXPFAM_INSTANCES(EXPFAM_FLOAT_DOTS, void, expfam_float_dots,
                 (const float *, ptrdiff_t, const float *, const int32_t *, ptrdiff_t, float *))

/* out[j] = sum_t x[t] tile[columns[t]][j] for j < width: vectors stored coordinate by coordinate. Every product goes
 * through at most nnz additions. */
#define EXPFAM_SPARSE_DOTS(NAME, TARGET)                                                                    \
    TARGET static void NAME(const float *x, const int32_t *columns, ptrdiff_t nnz, const float *tile, ptrdiff_t width, \
                            float *out) {                                                                   \
        memset(out, 0, (size_t)width * sizeof(float));                                                      \
        for (ptrdiff_t t = 0; t < nnz; t++) {                                                               \
            const float *row = tile + columns[t] * width;                                                   \
            const float value = x[t];                                                                       \
            if (t + 4 < nnz) EXPFAM_PREFETCH(tile + columns[t + 4] * width);                                \
            EXPFAM_SIMD                                                                                     \
            for (ptrdiff_t j = 0; j < width; j++) out[j] += value * row[j];                                 \
        }                                                                                                   \
    }
EXPFAM_INSTANCES(EXPFAM_SPARSE_DOTS, void, expfam_sparse_dots,
                 (const float *, const int32_t *, ptrdiff_t, const float *, ptrdiff_t, float *))
#endif

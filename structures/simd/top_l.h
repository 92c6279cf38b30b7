/* Selection of the largest values of a row. Instances: baseline, AVX2, AVX-512, see dispatch.h.
 * Every result is a comparison or a count, so all instances give bitwise the same results.
 */
#ifndef EXPFAM_TOP_L_H
#define EXPFAM_TOP_L_H
#include "dispatch.h"
#if EXPFAM_DISPATCH
#include <immintrin.h>
#endif
#ifdef EXPFAM_PRAGMA
#define EXPFAM_SIMD_MIN(variable) EXPFAM_PRAGMA(omp simd reduction(min : variable))
#else
#define EXPFAM_SIMD_MIN(variable)
#endif
#define TOP_LANES 32
#define TOP_RUN 128 /* values sorted by counting; longer sequences are merged from runs of this size */

/* Compute ranks[j] = number of values above values[j], for n <= TOP_RUN. `values` is padded with -inf to a multiple of
 * 16. Counts are floats of the width of the values, because baseline vectors compare 64-bit numbers only as doubles. */
#define TOP_RANKS(NAME, TARGET, TYPE)                                                                       \
    TARGET static void NAME(const TYPE *values, ptrdiff_t n, TYPE *ranks) {                                 \
        for (ptrdiff_t b = 0; b < n; b += 16) {                                                             \
            TYPE above[16] = {0};                                                                           \
            for (ptrdiff_t i = 0; i < n; i++) {                                                             \
                const TYPE x = values[i];                                                                   \
                EXPFAM_SIMD                                                                                 \
                for (int j = 0; j < 16; j++) above[j] += x > values[b + j] ? (TYPE)1 : (TYPE)0;             \
            }                                                                                               \
            memcpy(ranks + b, above, sizeof above);                                                         \
        }                                                                                                   \
    }
#define TOP_RANKS_F32(NAME, TARGET) TOP_RANKS(NAME, TARGET, float)
#define TOP_RANKS_F64(NAME, TARGET) TOP_RANKS(NAME, TARGET, double)
EXPFAM_INSTANCES(TOP_RANKS_F32, void, top_ranks_f32, (const float *, ptrdiff_t, float *))
EXPFAM_INSTANCES(TOP_RANKS_F64, void, top_ranks_f64, (const double *, ptrdiff_t, double *))

/* Return the n_top-th largest of 32 maxima, each over every 32nd value: at least n_top values of the row reach it. The
 * last values, which do not fill a round, are left out. A NaN is never a maximum. */
#define TOP_BOUND(NAME, TARGET, TYPE)                                                                       \
    TARGET static TYPE NAME(const TYPE *row, ptrdiff_t size, ptrdiff_t n_top) {                             \
        TYPE lanes[TOP_LANES], bound = INFINITY;                                                            \
        TYPE above[TOP_LANES] = {0};                                                                        \
        for (int j = 0; j < TOP_LANES; j++) lanes[j] = -INFINITY;                                           \
        for (ptrdiff_t k = 0; k + TOP_LANES <= size; k += TOP_LANES) {                                      \
            EXPFAM_SIMD                                                                                     \
            for (int j = 0; j < TOP_LANES; j++) lanes[j] = row[k + j] > lanes[j] ? row[k + j] : lanes[j];   \
        }                                                                                                   \
        for (int i = 0; i < TOP_LANES; i++) {                                                               \
            const TYPE x = lanes[i];                                                                        \
            EXPFAM_SIMD                                                                                     \
            for (int j = 0; j < TOP_LANES; j++) above[j] += x > lanes[j] ? (TYPE)1 : (TYPE)0;               \
        }                                                                                                   \
        EXPFAM_SIMD_MIN(bound)                                                                              \
        for (int j = 0; j < TOP_LANES; j++) {                                                               \
            const TYPE x = above[j] < (TYPE)n_top ? lanes[j] : (TYPE)INFINITY;                              \
            bound = x < bound ? x : bound;                                                                  \
        }                                                                                                   \
        return bound;                                                                                       \
    }
#define TOP_BOUND_F32(NAME, TARGET) TOP_BOUND(NAME, TARGET, float)
#define TOP_BOUND_F64(NAME, TARGET) TOP_BOUND(NAME, TARGET, double)
EXPFAM_INSTANCES(TOP_BOUND_F32, float, top_bound_f32, (const float *, ptrdiff_t, ptrdiff_t))
EXPFAM_INSTANCES(TOP_BOUND_F64, double, top_bound_f64, (const double *, ptrdiff_t, ptrdiff_t))

/* Count the values that reach the bound. */
#define TOP_COUNT(NAME, TARGET, TYPE, COUNT)                                                                \
    TARGET static ptrdiff_t NAME(const TYPE *row, ptrdiff_t size, TYPE bound) {                             \
        COUNT count = 0;                                                                                    \
        EXPFAM_SIMD_SUM(count)                                                                              \
        for (ptrdiff_t k = 0; k < size; k++) count += row[k] >= bound ? (COUNT)1 : (COUNT)0;                \
        return (ptrdiff_t)count;                                                                            \
    }
#define TOP_COUNT_F32(NAME, TARGET) TOP_COUNT(NAME, TARGET, float, int32_t)
#define TOP_COUNT_F64(NAME, TARGET) TOP_COUNT(NAME, TARGET, double, double)
EXPFAM_INSTANCES(TOP_COUNT_F32, ptrdiff_t, top_count_f32, (const float *, ptrdiff_t, float))
EXPFAM_INSTANCES(TOP_COUNT_F64, ptrdiff_t, top_count_f64, (const double *, ptrdiff_t, double))

/* Write the values that reach the bound (or, if `above` is set, exceed it) and their positions in the order of the row;
 * return their number. Both results need room for `size` + 16 entries. `from` has the positions of the row's values
 * (NULL for 0, 1, ...). `values` may be the row itself, and `indices` may be `from`: whole vectors are stored, but
 * never past the entries that have been read. */
#define TOP_TAKE(from, k) ((from) ? (from)[k] : (int32_t)(k))
#define TOP_KEEP_REST(row, from, k, size, bound, above, values, indices, n)                                 \
    for (; k < size; k++) {                                                                                 \
        const int32_t at = TOP_TAKE(from, k);                                                               \
        values[n] = row[k];                                                                                 \
        indices[n] = at;                                                                                    \
        n += above ? values[n] > bound : values[n] >= bound;                                                \
    }
#define TOP_KEEP(NAME, TYPE)                                                                                \
    EXPFAM_UNUSED static ptrdiff_t NAME(const TYPE *row, const int32_t *from, ptrdiff_t size, TYPE bound, int above, \
                                        TYPE *values, int32_t *indices) {                                   \
        ptrdiff_t k = 0, n = 0;                                                                             \
        for (; k + 16 <= size; k += 16) {                                                                   \
            TYPE any = 0;                                                                                   \
            EXPFAM_SIMD_SUM(any)                                                                            \
            for (int j = 0; j < 16; j++) any += row[k + j] >= bound ? (TYPE)1 : (TYPE)0;                    \
            if (any > 0) {                                                                                  \
                const ptrdiff_t stop = k + 16;                                                              \
                ptrdiff_t i = k;                                                                            \
                TOP_KEEP_REST(row, from, i, stop, bound, above, values, indices, n)                         \
            }                                                                                               \
        }                                                                                                   \
        TOP_KEEP_REST(row, from, k, size, bound, above, values, indices, n)                                 \
        return n;                                                                                           \
    }
TOP_KEEP(top_keep_f32_base, float)
TOP_KEEP(top_keep_f64_base, double)

#if EXPFAM_DISPATCH
#define TOP_KEEP_BITS(bits, k)                                                                              \
    while (bits) {                                                                                          \
        const ptrdiff_t i = k + __builtin_ctzll(bits);                                                      \
        const int32_t at = TOP_TAKE(from, i);                                                               \
        values[n] = row[i];                                                                                 \
        indices[n++] = at;                                                                                  \
        bits &= bits - 1;                                                                                   \
    }
#define TOP_MASK_F32(at)                                                                                    \
    (uint64_t)(uint32_t)_mm256_movemask_ps(above ? _mm256_cmp_ps(_mm256_loadu_ps(row + at), least, _CMP_GT_OQ) \
                                                 : _mm256_cmp_ps(_mm256_loadu_ps(row + at), least, _CMP_GE_OQ))
#define TOP_MASK_F64(at)                                                                                    \
    (uint64_t)(uint32_t)_mm256_movemask_pd(above ? _mm256_cmp_pd(_mm256_loadu_pd(row + at), least, _CMP_GT_OQ) \
                                                 : _mm256_cmp_pd(_mm256_loadu_pd(row + at), least, _CMP_GE_OQ))
EXPFAM_AVX2 EXPFAM_UNUSED static ptrdiff_t top_keep_f32_avx2(const float *row, const int32_t *from, ptrdiff_t size,
                                                             float bound, int above, float *values,
                                                             int32_t *indices) {
    const __m256 least = _mm256_set1_ps(bound);
    ptrdiff_t k = 0, n = 0;
    for (; k + 32 <= size; k += 32) {
        uint64_t bits = TOP_MASK_F32(k) | TOP_MASK_F32(k + 8) << 8 | TOP_MASK_F32(k + 16) << 16 |
                        TOP_MASK_F32(k + 24) << 24;
        TOP_KEEP_BITS(bits, k)
    }
    TOP_KEEP_REST(row, from, k, size, bound, above, values, indices, n)
    return n;
}
EXPFAM_AVX2 EXPFAM_UNUSED static ptrdiff_t top_keep_f64_avx2(const double *row, const int32_t *from, ptrdiff_t size,
                                                             double bound, int above, double *values,
                                                             int32_t *indices) {
    const __m256d least = _mm256_set1_pd(bound);
    ptrdiff_t k = 0, n = 0;
    for (; k + 16 <= size; k += 16) {
        uint64_t bits = TOP_MASK_F64(k) | TOP_MASK_F64(k + 4) << 4 | TOP_MASK_F64(k + 8) << 8 |
                        TOP_MASK_F64(k + 12) << 12;
        TOP_KEEP_BITS(bits, k)
    }
    TOP_KEEP_REST(row, from, k, size, bound, above, values, indices, n)
    return n;
}

/* Compress in the register and store whole vectors: a compressing store is slow on some processors. */
EXPFAM_AVX512 EXPFAM_UNUSED static ptrdiff_t top_keep_f32_avx512(const float *row, const int32_t *from, ptrdiff_t size,
                                                                 float bound, int above, float *values,
                                                                 int32_t *indices) {
    const __m512 least = _mm512_set1_ps(bound);
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    ptrdiff_t n = 0;
    for (ptrdiff_t k = 0; k < size; k += 16) {
        const __mmask16 valid = size - k < 16 ? (__mmask16)((1u << (size - k)) - 1) : (__mmask16)0xffff;
        const __m512 x = _mm512_maskz_loadu_ps(valid, row + k);
        const __mmask16 kept = above ? _mm512_mask_cmp_ps_mask(valid, x, least, _CMP_GT_OQ)
                                     : _mm512_mask_cmp_ps_mask(valid, x, least, _CMP_GE_OQ);
        if (kept) {
            const __m512i at = from ? _mm512_maskz_loadu_epi32(valid, from + k)
                                    : _mm512_add_epi32(lanes, _mm512_set1_epi32((int32_t)k));
            _mm512_storeu_ps(values + n, _mm512_maskz_compress_ps(kept, x));
            _mm512_storeu_si512(indices + n, _mm512_maskz_compress_epi32(kept, at));
            n += __builtin_popcount(kept);
        }
    }
    return n;
}
EXPFAM_AVX512 EXPFAM_UNUSED static ptrdiff_t top_keep_f64_avx512(const double *row, const int32_t *from, ptrdiff_t size,
                                                                 double bound, int above, double *values,
                                                                 int32_t *indices) {
    const __m512d least = _mm512_set1_pd(bound);
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    ptrdiff_t n = 0;
    for (ptrdiff_t k = 0; k < size; k += 8) {
        const __mmask8 valid = size - k < 8 ? (__mmask8)((1u << (size - k)) - 1) : (__mmask8)0xff;
        const __m512d x = _mm512_maskz_loadu_pd(valid, row + k);
        const __mmask8 kept = above ? _mm512_mask_cmp_pd_mask(valid, x, least, _CMP_GT_OQ)
                                    : _mm512_mask_cmp_pd_mask(valid, x, least, _CMP_GE_OQ);
        if (kept) {
            const __m256i at = from ? _mm256_maskz_loadu_epi32(valid, from + k)
                                    : _mm256_add_epi32(lanes, _mm256_set1_epi32((int32_t)k));
            _mm512_storeu_pd(values + n, _mm512_maskz_compress_pd(kept, x));
            _mm256_storeu_si256((__m256i *)(indices + n), _mm256_maskz_compress_epi32(kept, at));
            n += __builtin_popcount(kept);
        }
    }
    return n;
}
#endif
#define TOP_WRITTEN(NAME, TARGET) /* its instances are written above */
EXPFAM_INSTANCES(TOP_WRITTEN, ptrdiff_t, top_keep_f32,
                 (const float *, const int32_t *, ptrdiff_t, float, int, float *, int32_t *))
EXPFAM_INSTANCES(TOP_WRITTEN, ptrdiff_t, top_keep_f64,
                 (const double *, const int32_t *, ptrdiff_t, double, int, double *, int32_t *))
#endif

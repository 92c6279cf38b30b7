/* Scores of one query against many rows of small integers. Instances: baseline, AVX2, AVX-512 with VNNI.
 *
 * A block stores 64 rows in groups of four features: byte t of row j in group g of its block is at 256 g + 4 j + t, so
 * that one instruction handles 8 or 16 rows. Entries of rows are stored plus 128. The entries of rows and query are in
 * -127..127, where no sum of two products exceeds 16 bits. All instances give the same integers and, because no product
 * is fused with a sum, the same floats. Whole vectors of four-byte products need AVX-512 VNNI; without it the AVX2
 * instance is used.
 */
#ifndef EXPFAM_INT8_H
#define EXPFAM_INT8_H
#include "vnni.h"

#define EXPFAM_INT8_GROUP 256
EXPFAM_INLINE void expfam_int8_block_base(const uint8_t *rows, const int8_t *query, ptrdiff_t n_groups, int32_t *dots) {
    memset(dots, 0, 64 * sizeof *dots);
    for (ptrdiff_t g = 0; g < n_groups; g++, rows += EXPFAM_INT8_GROUP, query += 4) {
        const int32_t a = query[0], b = query[1], c = query[2], d = query[3], all = 128 * (a + b + c + d);
        EXPFAM_SIMD
        for (int j = 0; j < 64; j++)
            dots[j] += a * rows[4 * j] + b * rows[4 * j + 1] + c * rows[4 * j + 2] + d * rows[4 * j + 3] - all;
    }
}

#if EXPFAM_DISPATCH
/* The instruction multiplies unsigned by signed bytes, so the sign of the query is moved to the rows. */
EXPFAM_AVX2 EXPFAM_INLINE void expfam_int8_block_avx2(const uint8_t *rows, const int8_t *query, ptrdiff_t n_groups,
                                                      int32_t *dots) {
    const __m256i ones = _mm256_set1_epi16(1), bias = _mm256_set1_epi8(-128);
    __m256i sums[8];
    for (int v = 0; v < 8; v++) sums[v] = _mm256_setzero_si256();
    for (ptrdiff_t g = 0; g < n_groups; g++, rows += EXPFAM_INT8_GROUP) {
        int32_t four;
        memcpy(&four, query + 4 * g, 4);
        const __m256i signs = _mm256_set1_epi32(four), sizes = _mm256_abs_epi8(signs);
        for (int v = 0; v < 8; v++) {
            const __m256i entries = _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)(rows + 32 * v)), bias);
            const __m256i pairs = _mm256_maddubs_epi16(sizes, _mm256_sign_epi8(entries, signs));
            sums[v] = _mm256_add_epi32(sums[v], _mm256_madd_epi16(pairs, ones));
        }
    }
    for (int v = 0; v < 8; v++) _mm256_storeu_si256((__m256i *)(dots + 8 * v), sums[v]);
}

EXPFAM_AVX512_VNNI EXPFAM_INLINE void expfam_int8_block_avx512(const uint8_t *rows, const int8_t *query,
                                                               ptrdiff_t n_groups, int32_t *dots) {
    const __m512i bias = _mm512_set1_epi8(-128);
    __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a, all = a;
    for (ptrdiff_t g = 0; g < n_groups; g++, rows += EXPFAM_INT8_GROUP) {
        int32_t four;
        memcpy(&four, query + 4 * g, 4);
        const __m512i q = _mm512_set1_epi32(four);
        all = _mm512_dpbusd_epi32(all, bias, q); /* 128 as an unsigned byte: the contribution of the added 128 */
        a = _mm512_dpbusd_epi32(a, _mm512_loadu_si512(rows), q);
        b = _mm512_dpbusd_epi32(b, _mm512_loadu_si512(rows + 64), q);
        c = _mm512_dpbusd_epi32(c, _mm512_loadu_si512(rows + 128), q);
        d = _mm512_dpbusd_epi32(d, _mm512_loadu_si512(rows + 192), q);
    }
    _mm512_storeu_si512(dots, _mm512_sub_epi32(a, all));
    _mm512_storeu_si512(dots + 16, _mm512_sub_epi32(b, all));
    _mm512_storeu_si512(dots + 32, _mm512_sub_epi32(c, all));
    _mm512_storeu_si512(dots + 48, _mm512_sub_epi32(d, all));
}

EXPFAM_UNUSED static int expfam_int8_isa(void) {
    const int level = expfam_isa();
    return level == 2 && !expfam_has_avx512_vnni() ? 1 : level;
}
/* As EXPFAM_INSTANCES; BODY takes one more argument, the product with a block of its instance. */
#define EXPFAM_INT8_INSTANCES(BODY, result, name, arguments)                                                \
    BODY(name##_base, , expfam_int8_block_base)                                                             \
    BODY(name##_avx2, EXPFAM_AVX2, expfam_int8_block_avx2)                                                  \
    BODY(name##_avx512, EXPFAM_AVX512_VNNI, expfam_int8_block_avx512)                                       \
    EXPFAM_CALLED(result, name, arguments, expfam_int8_isa)
#else
#define EXPFAM_INT8_INSTANCES(BODY, result, name, arguments)                                                \
    BODY(name##_base, , expfam_int8_block_base) EXPFAM_UNUSED static result (*name) arguments = name##_base;
#endif

#define EXPFAM_INT8_DOTS(NAME, TARGET, BLOCK)                                                               \
    TARGET static void NAME(const uint8_t *rows, const int8_t *query, ptrdiff_t n_groups, int32_t *dots,    \
                            ptrdiff_t n_blocks) {                                                           \
        for (ptrdiff_t b = 0; b < n_blocks; b++)                                                            \
            BLOCK(rows + b * n_groups * EXPFAM_INT8_GROUP, query, n_groups, dots + 64 * b);                 \
    }
EXPFAM_INT8_INSTANCES(EXPFAM_INT8_DOTS, void, expfam_int8_dots,
                      (const uint8_t *, const int8_t *, ptrdiff_t, int32_t *, ptrdiff_t))

/* scores = (dots unit scales + offsets + bias) factor; return the largest. A bias of -inf gives the score -inf. */
#define EXPFAM_INT8_SCORES(NAME, TARGET, BLOCK)                                                             \
    TARGET EXPFAM_UNFUSED static float NAME(const uint8_t *rows, const int8_t *query, ptrdiff_t n_groups, float unit, \
                                            const float *scales, const float *offsets, const float *bias,   \
                                            float factor, float *scores, ptrdiff_t n_blocks) {              \
        EXPFAM_UNFUSED_BODY                                                                                 \
        float best = -INFINITY;                                                                             \
        int32_t dots[64];                                                                                   \
        for (ptrdiff_t b = 0; b < n_blocks; b++) {                                                          \
            const ptrdiff_t k = 64 * b;                                                                     \
            float *row = scores + k;                                                                        \
            BLOCK(rows + b * n_groups * EXPFAM_INT8_GROUP, query, n_groups, dots);                          \
            EXPFAM_SIMD                                                                                     \
            for (int i = 0; i < 64; i++)                                                                    \
                row[i] = (((float)dots[i] * (unit * scales[k + i]) + offsets[k + i]) + bias[k + i]) * factor; \
            EXPFAM_SIMD_MAX(best)                                                                           \
            for (int i = 0; i < 64; i++) best = row[i] > best ? row[i] : best;                              \
        }                                                                                                   \
        return best;                                                                                        \
    }
EXPFAM_INT8_INSTANCES(EXPFAM_INT8_SCORES, float, expfam_int8_scores,
                      (const uint8_t *, const int8_t *, ptrdiff_t, float, const float *, const float *, const float *,
                       float, float *, ptrdiff_t))
#endif

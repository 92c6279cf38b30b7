/* Hamming distances of one sign code to many, and scores of clusters from them: an angle is estimated from a distance
 * (Charikar 2002). Instances: baseline, AVX2, AVX-512 with VPOPCNTDQ. Popcounts of whole vectors need VPOPCNTDQ;
 * without it the AVX2 instance is used. All instances give bitwise the same results, also floats: a product is never
 * fused with a sum.
 */
#ifndef EXPFAM_HAMMING_H
#define EXPFAM_HAMMING_H
#include "popcount.h"

#if EXPFAM_DISPATCH
#include <immintrin.h>
#define EXPFAM_AVX512_VPOPCNT __attribute__((target(                                                        \
    "avx512f,avx512dq,avx512vl,avx512bw,avx512vpopcntdq,avx2,fma,popcnt,prefer-vector-width=512")))
/* expfam_isa() for loops that count bits: 2 only where vectors have a popcount. */
static int expfam_popcount_isa(void) {
    int level = expfam_isa();
    return level == 2 && !__builtin_cpu_supports("avx512vpopcntdq") ? 1 : level;
}
/* As EXPFAM_INSTANCES; BODY takes one more argument, INNER of its instance. */
#define EXPFAM_POPCOUNT_INSTANCES(BODY, result, name, arguments, INNER)                                     \
    BODY(name##_base, , INNER##_base)                                                                       \
    BODY(name##_avx2, EXPFAM_AVX2, INNER##_avx2)                                                            \
    BODY(name##_avx512, EXPFAM_AVX512_VPOPCNT, INNER##_avx512)                                              \
    EXPFAM_CALLED(result, name, arguments, expfam_popcount_isa)
#else
#define EXPFAM_POPCOUNT_INSTANCES(BODY, result, name, arguments, INNER)                                     \
    BODY(name##_base, , INNER##_base)                                                                       \
    EXPFAM_UNUSED static result (*name) arguments = name##_base;
#endif

/* Compute the distances h[0..63] of one code to the 64 codes whose words p are at planes + p stride. */
EXPFAM_INLINE void expfam_distances_base(const uint64_t *planes, ptrdiff_t stride, const uint64_t *code,
                                         ptrdiff_t n_words, int32_t *h) {
    for (int i = 0; i < 64; i++) h[i] = (int32_t)expfam_popcount1(planes[i] ^ code[0]);
    for (ptrdiff_t p = 1; p < n_words; p++)
        for (int i = 0; i < 64; i++) h[i] += (int32_t)expfam_popcount1(planes[p * stride + i] ^ code[p]);
}
#if EXPFAM_DISPATCH
/* Look up nibbles in a register (Mula, Kurz, Lemire 2018): twice as fast as one popcount for each word. A byte can hold
 * the sum of up to 31 words of code. */
EXPFAM_AVX2 EXPFAM_INLINE void expfam_distances_avx2(const uint64_t *planes, ptrdiff_t stride, const uint64_t *code,
                                                     ptrdiff_t n_words, int32_t *h) {
    const __m256i bits = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4,
                                          0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4);
    const __m256i low = _mm256_set1_epi8(15), order = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
    for (int i = 0; i < 64; i += 8) {
        __m256i total = _mm256_setzero_si256();
        for (ptrdiff_t first = 0; first < n_words; first += 31) {
            const ptrdiff_t last = n_words - first < 31 ? n_words : first + 31;
            __m256i a = _mm256_setzero_si256(), b = a;
            for (ptrdiff_t p = first; p < last; p++) {
                const __m256i *at = (const __m256i *)(planes + p * stride + i),
                              word = _mm256_set1_epi64x((int64_t)code[p]);
                const __m256i x = _mm256_xor_si256(_mm256_loadu_si256(at), word);
                const __m256i y = _mm256_xor_si256(_mm256_loadu_si256(at + 1), word);
                a = _mm256_add_epi8(a, _mm256_shuffle_epi8(bits, _mm256_and_si256(x, low)));
                b = _mm256_add_epi8(b, _mm256_shuffle_epi8(bits, _mm256_and_si256(y, low)));
                a = _mm256_add_epi8(a, _mm256_shuffle_epi8(bits, _mm256_and_si256(_mm256_srli_epi16(x, 4), low)));
                b = _mm256_add_epi8(b, _mm256_shuffle_epi8(bits, _mm256_and_si256(_mm256_srli_epi16(y, 4), low)));
            }
            a = _mm256_sad_epu8(a, _mm256_setzero_si256());
            b = _mm256_sad_epu8(b, _mm256_setzero_si256());
            total = _mm256_add_epi32(total, _mm256_or_si256(a, _mm256_slli_epi64(b, 32)));
        }
        _mm256_storeu_si256((__m256i *)(h + i), _mm256_permutevar8x32_epi32(total, order)); /* from 0 4 1 5 2 6 3 7 */
    }
}
EXPFAM_AVX512_VPOPCNT EXPFAM_INLINE __m512i expfam_differ_avx512(const uint64_t *plane, uint64_t word) {
    return _mm512_popcnt_epi64(_mm512_xor_si512(_mm512_loadu_si512(plane), _mm512_set1_epi64((int64_t)word)));
}
/* Compute distances minus `first`. Sums are narrowed at the end: one shuffle for sixteen codes, not for each word. */
EXPFAM_AVX512_VPOPCNT EXPFAM_INLINE void expfam_count_avx512(const uint64_t *planes, ptrdiff_t stride,
                                                             const uint64_t *code, ptrdiff_t n_words, ptrdiff_t first,
                                                             __m512i *h) {
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    __m512i sums[8];
    for (int j = 0; j < 8; j++) sums[j] = expfam_differ_avx512(planes + 8 * j, code[0]);
    for (ptrdiff_t p = 1; p < n_words; p++)
        for (int j = 0; j < 8; j++)
            sums[j] = _mm512_add_epi64(sums[j], expfam_differ_avx512(planes + p * stride + 8 * j, code[p]));
    for (int j = 0; j < 4; j++) {
        const __m512i narrow = _mm512_permutex2var_epi32(sums[2 * j], even, sums[2 * j + 1]);
        h[j] = _mm512_sub_epi32(narrow, _mm512_set1_epi32((int)first));
    }
}
EXPFAM_AVX512_VPOPCNT EXPFAM_INLINE void expfam_distances_avx512(const uint64_t *planes, ptrdiff_t stride,
                                                                 const uint64_t *code, ptrdiff_t n_words, int32_t *h) {
    __m512i wide[4];
    expfam_count_avx512(planes, stride, code, n_words, 0, wide);
    memcpy(h, wide, sizeof wide);
}
#endif

#define EXPFAM_HAMMING(NAME, TARGET, DISTANCES)                                                             \
    TARGET static void NAME(const uint64_t *planes, ptrdiff_t stride, const uint64_t *code, ptrdiff_t n_words, \
                            int32_t *out, ptrdiff_t n) {                                                    \
        int32_t h[64];                                                                                      \
        for (ptrdiff_t b = 0; b < n; b += 64) {                                                             \
            DISTANCES(planes + b, stride, code, n_words, h);                                                \
            memcpy(out + b, h, (size_t)(n - b < 64 ? n - b : 64) * sizeof *h);                              \
        }                                                                                                   \
    }
EXPFAM_POPCOUNT_INSTANCES(EXPFAM_HAMMING, void, expfam_hamming,
                          (const uint64_t *, ptrdiff_t, const uint64_t *, ptrdiff_t, int32_t *, ptrdiff_t),
                          expfam_distances)

/* cosines[i] = table[h_i], i < 64. Compilers do not generate gathers here; both ways load the same bits. */
EXPFAM_INLINE void expfam_cosines_base(const uint64_t *planes, ptrdiff_t stride, const uint64_t *code,
                                       ptrdiff_t n_words, const float *table, float *cosines) {
    int32_t h[64];
    expfam_distances_base(planes, stride, code, n_words, h);
    for (int i = 0; i < 64; i++) cosines[i] = table[h[i]];
}
#if EXPFAM_DISPATCH
EXPFAM_AVX2 EXPFAM_INLINE void expfam_cosines_avx2(const uint64_t *planes, ptrdiff_t stride, const uint64_t *code,
                                                   ptrdiff_t n_words, const float *table, float *cosines) {
    int32_t h[64];
    expfam_distances_avx2(planes, stride, code, n_words, h);
    for (int i = 0; i < 64; i += 8)
        _mm256_storeu_ps(cosines + i, _mm256_i32gather_ps(table, _mm256_loadu_si256((const __m256i *)(h + i)), 4));
}
/* Distances of unrelated vectors of many dimensions have mean l/2 and standard deviation sqrt(l)/2. Up to 256 bits,
 * four standard deviations are covered by the 64 middle entries of the table, which fit in four registers. A block with
 * a distance outside of them uses gathers. */
EXPFAM_AVX512_VPOPCNT EXPFAM_INLINE void expfam_cosines_avx512(const uint64_t *planes, ptrdiff_t stride,
                                                               const uint64_t *code, ptrdiff_t n_words,
                                                               const float *table, float *cosines) {
    const ptrdiff_t first = 32 * (n_words - 1);
    const float *middle = table + first;
    __m512i h[4];
    expfam_count_avx512(planes, stride, code, n_words, first, h);
    const __m512i any = _mm512_or_si512(_mm512_or_si512(h[0], h[1]), _mm512_or_si512(h[2], h[3]));
    if (n_words > 4 || _mm512_test_epi32_mask(any, _mm512_set1_epi32(~63))) {
        for (int j = 0; j < 4; j++) _mm512_storeu_ps(cosines + 16 * j, _mm512_i32gather_ps(h[j], middle, 4));
        return;
    }
    const __m512 a = _mm512_loadu_ps(middle), b = _mm512_loadu_ps(middle + 16);
    const __m512 c = _mm512_loadu_ps(middle + 32), d = _mm512_loadu_ps(middle + 48);
    for (int j = 0; j < 4; j++) {
        const __mmask16 upper = _mm512_test_epi32_mask(h[j], _mm512_set1_epi32(32));
        const __m512 low = _mm512_permutex2var_ps(a, h[j], b), high = _mm512_permutex2var_ps(c, h[j], d);
        _mm512_storeu_ps(cosines + 16 * j, _mm512_mask_blend_ps(upper, low, high));
    }
}
#endif

/* scores[k] = norm norms[k] table[h_k] (+ factor slopes[k]) + bias[k] for k < n, and -inf up to the next multiple of
 * 64. Return the largest. `slopes` may be NULL. */
#define EXPFAM_SIGN_SCORES(NAME, TARGET, COSINES)                                                           \
    TARGET EXPFAM_UNFUSED static float NAME(const uint64_t *planes, ptrdiff_t stride, const uint64_t *code, \
                                            ptrdiff_t n_words, const float *table, const float *norms, float norm, \
                                            const float *slopes, float factor, const float *bias, float *scores, \
                                            ptrdiff_t n) {                                                  \
        EXPFAM_UNFUSED_BODY                                                                                 \
        float cosines[64], tops[16], last[64];                                                              \
        for (int j = 0; j < 16; j++) tops[j] = -INFINITY;                                                   \
        for (int i = 0; i < 64; i++) last[i] = -INFINITY; /* bias of the last block, padded */              \
        for (ptrdiff_t b = 0; b < n; b += 64) {                                                             \
            const ptrdiff_t m = n - b < 64 ? n - b : 64;                                                    \
            const float *add = bias + b;                                                                    \
            float *row = scores + b;                                                                        \
            COSINES(planes + b, stride, code, n_words, table, cosines);                                     \
            EXPFAM_SIMD                                                                                     \
            for (int i = 0; i < 64; i++) row[i] = norm * norms[b + i] * cosines[i]; /* norms are padded */  \
            if (slopes) {                                                                                   \
                EXPFAM_SIMD                                                                                 \
                for (int i = 0; i < 64; i++) row[i] += factor * slopes[b + i];                              \
            }                                                                                               \
            if (m < 64) {                                                                                   \
                memcpy(last, add, (size_t)m * sizeof *add);                                                 \
                add = last;                                                                                 \
            }                                                                                               \
            EXPFAM_SIMD                                                                                     \
            for (int i = 0; i < 64; i++) row[i] += add[i];                                                  \
            for (int i = 0; i < 64; i += 16) {                                                              \
                EXPFAM_SIMD                                                                                 \
                for (int j = 0; j < 16; j++) tops[j] = row[i + j] > tops[j] ? row[i + j] : tops[j];         \
            }                                                                                               \
        }                                                                                                   \
        for (int half = 8; half; half /= 2) {                                                               \
            for (int j = 0; j < half; j++) tops[j] = tops[j + half] > tops[j] ? tops[j + half] : tops[j];   \
        }                                                                                                   \
        return tops[0];                                                                                     \
    }
EXPFAM_POPCOUNT_INSTANCES(EXPFAM_SIGN_SCORES, float, expfam_sign_scores,
                          (const uint64_t *, ptrdiff_t, const uint64_t *, ptrdiff_t, const float *, const float *,
                           float, const float *, float, const float *, float *, ptrdiff_t), expfam_cosines)
#endif

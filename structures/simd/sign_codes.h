/* Sign codes of data: random signs and quantiles from hash bits, sums of a datum's entries with these signs, and the
 * bits of a code (sign random projections, Charikar 2002). Instances: baseline, AVX2, AVX-512. All give bitwise the
 * same results, also floats: sums run in lanes in a fixed order, and a product is never fused with a sum.
 */
#ifndef EXPFAM_SIGN_CODES_H
#define EXPFAM_SIGN_CODES_H
#include "dispatch.h"
#if EXPFAM_DISPATCH
#include <immintrin.h>
#endif

/* 64-bit finaliser of MurmurHash3 (Appleby): a bijection; each output bit depends on all input bits. */
EXPFAM_INLINE uint64_t expfam_mix64(uint64_t x) {
    x = (x ^ (x >> 33)) * UINT64_C(0xff51afd7ed558ccd);
    x = (x ^ (x >> 33)) * UINT64_C(0xc4ceb9fe1a85ec53);
    return x ^ (x >> 33);
}
#define EXPFAM_HASH_COORDINATE UINT64_C(0x9e3779b97f4a7c15)
#define EXPFAM_HASH_WORD UINT64_C(0xd1b54a32d192ed03)

/* keys[i] = mix(coordinate c1 + seed), the common part of the hash words of one coordinate. */
#define EXPFAM_SIGN_KEYS(NAME, TARGET)                                                                      \
    TARGET static void NAME(const int64_t *coordinates, uint64_t seed, uint64_t *keys, ptrdiff_t n) {       \
        for (ptrdiff_t i = 0; i < n; i++)                                                                   \
            keys[i] = expfam_mix64((uint64_t)coordinates[i] * EXPFAM_HASH_COORDINATE + seed);               \
    }
EXPFAM_INSTANCES(EXPFAM_SIGN_KEYS, void, expfam_sign_keys, (const int64_t *, uint64_t, uint64_t *, ptrdiff_t))

/* words[i] = mix(keys[i] + p c2): the 64 hash bits of word p. */
#define EXPFAM_SIGN_WORDS(NAME, TARGET)                                                                     \
    TARGET static void NAME(const uint64_t *keys, uint64_t p, uint64_t *words, ptrdiff_t n) {               \
        for (ptrdiff_t i = 0; i < n; i++) words[i] = expfam_mix64(keys[i] + p * EXPFAM_HASH_WORD);          \
    }
EXPFAM_INSTANCES(EXPFAM_SIGN_WORDS, void, expfam_sign_words, (const uint64_t *, uint64_t, uint64_t *, ptrdiff_t))

/* dots[j] += sum_i (bit j of words[i] ? v[i] : -v[i]), j < 64. Integers modulo 2^32 or 2^64: twice the sum over set
 * bits minus the sum of all, one addition for each lane. Doubles: each lane sums in the order of i. The instances are
 * written out, because compilers did not keep 64 sums in registers and did not use bits as a mask of lanes. */
#define EXPFAM_SIGN_ADD(NAME, TYPE)                                                                         \
    static void NAME(const uint64_t *words, const TYPE *v, ptrdiff_t n, TYPE *dots) {                       \
        for (ptrdiff_t i = 0; i < n; i++) {                                                                 \
            const uint64_t word = words[i];                                                                 \
            const TYPE add = v[i];                                                                          \
            EXPFAM_SIMD                                                                                     \
            for (int j = 0; j < 64; j++) {                                                                  \
                const TYPE off = (TYPE)((word >> j & 1) - 1); /* all bits set where the bit is not */       \
                dots[j] += (add ^ off) - off;                                                               \
            }                                                                                               \
        }                                                                                                   \
    }
EXPFAM_SIGN_ADD(expfam_sign_add_32_base, uint32_t)
EXPFAM_SIGN_ADD(expfam_sign_add_64_base, uint64_t)

static void expfam_sign_add_real_base(const uint64_t *words, const double *v, ptrdiff_t n, double *dots) {
    for (ptrdiff_t i = 0; i < n; i++) {
        const double both[2] = {-v[i], v[i]};
        for (int j = 0; j < 64; j++) dots[j] += both[words[i] >> j & 1];
    }
}

#if EXPFAM_DISPATCH
EXPFAM_AVX2 static void expfam_sign_add_32_avx2(const uint64_t *words, const uint32_t *v, ptrdiff_t n, uint32_t *dots) {
    const __m256i bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    for (int half = 0; half < 2; half++) {
        __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a, all = a;
        const __m256i bits_b = _mm256_slli_epi32(bits, 8), bits_c = _mm256_slli_epi32(bits, 16);
        const __m256i bits_d = _mm256_slli_epi32(bits, 24);
        for (ptrdiff_t i = 0; i < n; i++) {
            const __m256i word = _mm256_set1_epi32((int32_t)(words[i] >> (32 * half)));
            const __m256i add = _mm256_set1_epi32((int32_t)v[i]);
            all = _mm256_add_epi32(all, add);
            a = _mm256_add_epi32(a, _mm256_and_si256(_mm256_cmpeq_epi32(_mm256_and_si256(word, bits), bits), add));
            b = _mm256_add_epi32(b, _mm256_and_si256(_mm256_cmpeq_epi32(_mm256_and_si256(word, bits_b), bits_b), add));
            c = _mm256_add_epi32(c, _mm256_and_si256(_mm256_cmpeq_epi32(_mm256_and_si256(word, bits_c), bits_c), add));
            d = _mm256_add_epi32(d, _mm256_and_si256(_mm256_cmpeq_epi32(_mm256_and_si256(word, bits_d), bits_d), add));
        }
#define EXPFAM_STORE(x, at)                                                                                 \
    _mm256_storeu_si256((__m256i *)(dots + 32 * half + at),                                                 \
                        _mm256_add_epi32(_mm256_loadu_si256((const __m256i *)(dots + 32 * half + at)),      \
                                         _mm256_sub_epi32(_mm256_add_epi32(x, x), all)))
        EXPFAM_STORE(a, 0);
        EXPFAM_STORE(b, 8);
        EXPFAM_STORE(c, 16);
        EXPFAM_STORE(d, 24);
#undef EXPFAM_STORE
    }
}

EXPFAM_AVX2 static void expfam_sign_add_64_avx2(const uint64_t *words, const uint64_t *v, ptrdiff_t n, uint64_t *dots) {
    for (int j = 0; j < 64; j += 8) {
        const __m256i bits = _mm256_setr_epi64x(1, 2, 4, 8), bits_b = _mm256_slli_epi64(bits, 4);
        __m256i a = _mm256_loadu_si256((const __m256i *)(dots + j));
        __m256i b = _mm256_loadu_si256((const __m256i *)(dots + j + 4));
        for (ptrdiff_t i = 0; i < n; i++) { /* (x xor -1) - (-1) is -x */
            const __m256i word = _mm256_set1_epi64x((int64_t)(words[i] >> j)), add = _mm256_set1_epi64x((int64_t)v[i]);
            const __m256i off = _mm256_cmpeq_epi64(_mm256_and_si256(word, bits), _mm256_setzero_si256());
            const __m256i off_b = _mm256_cmpeq_epi64(_mm256_and_si256(word, bits_b), _mm256_setzero_si256());
            a = _mm256_add_epi64(a, _mm256_sub_epi64(_mm256_xor_si256(add, off), off));
            b = _mm256_add_epi64(b, _mm256_sub_epi64(_mm256_xor_si256(add, off_b), off_b));
        }
        _mm256_storeu_si256((__m256i *)(dots + j), a);
        _mm256_storeu_si256((__m256i *)(dots + j + 4), b);
    }
}

EXPFAM_AVX2 static void expfam_sign_add_real_avx2(const uint64_t *words, const double *v, ptrdiff_t n, double *dots) {
    const __m256i shifts = _mm256_setr_epi64x(63, 62, 61, 60);
    const __m256d sign = _mm256_set1_pd(-0.0);
    for (int j = 0; j < 64; j += 16) {
        __m256d a = _mm256_loadu_pd(dots + j), b = _mm256_loadu_pd(dots + j + 4);
        __m256d c = _mm256_loadu_pd(dots + j + 8), d = _mm256_loadu_pd(dots + j + 12);
        for (ptrdiff_t i = 0; i < n; i++) { /* complement of bit j + lane, moved to the sign bit */
            const __m256i word = _mm256_sllv_epi64(_mm256_set1_epi64x((int64_t)(~words[i] >> j)), shifts);
            const __m256d add = _mm256_set1_pd(v[i]);
#define EXPFAM_TURN(by) _mm256_xor_pd(add, _mm256_and_pd(sign, _mm256_castsi256_pd(by)))
            a = _mm256_add_pd(a, EXPFAM_TURN(word));
            b = _mm256_add_pd(
                b, EXPFAM_TURN(_mm256_sllv_epi64(_mm256_set1_epi64x((int64_t)(~words[i] >> j >> 4)), shifts)));
            c = _mm256_add_pd(
                c, EXPFAM_TURN(_mm256_sllv_epi64(_mm256_set1_epi64x((int64_t)(~words[i] >> j >> 8)), shifts)));
            d = _mm256_add_pd(
                d, EXPFAM_TURN(_mm256_sllv_epi64(_mm256_set1_epi64x((int64_t)(~words[i] >> j >> 12)), shifts)));
#undef EXPFAM_TURN
        }
        _mm256_storeu_pd(dots + j, a);
        _mm256_storeu_pd(dots + j + 4, b);
        _mm256_storeu_pd(dots + j + 8, c);
        _mm256_storeu_pd(dots + j + 12, d);
    }
}

EXPFAM_AVX512 static void expfam_sign_add_32_avx512(const uint64_t *words, const uint32_t *v, ptrdiff_t n,
                                                   uint32_t *dots) {
    __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a, all = a;
    for (ptrdiff_t i = 0; i < n; i++) {
        const uint64_t word = words[i];
        const __m512i add = _mm512_set1_epi32((int32_t)v[i]);
        all = _mm512_add_epi32(all, add);
        a = _mm512_mask_add_epi32(a, (__mmask16)word, a, add);
        b = _mm512_mask_add_epi32(b, (__mmask16)(word >> 16), b, add);
        c = _mm512_mask_add_epi32(c, (__mmask16)(word >> 32), c, add);
        d = _mm512_mask_add_epi32(d, (__mmask16)(word >> 48), d, add);
    }
#define EXPFAM_STORE(x, at)                                                                                 \
    _mm512_storeu_si512(dots + at, _mm512_add_epi32(_mm512_loadu_si512(dots + at),                          \
                                                    _mm512_sub_epi32(_mm512_add_epi32(x, x), all)))
    EXPFAM_STORE(a, 0);
    EXPFAM_STORE(b, 16);
    EXPFAM_STORE(c, 32);
    EXPFAM_STORE(d, 48);
#undef EXPFAM_STORE
}

EXPFAM_AVX512 static void expfam_sign_add_64_avx512(const uint64_t *words, const uint64_t *v, ptrdiff_t n,
                                                   uint64_t *dots) {
    for (int j = 0; j < 64; j += 32) {
        __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a, all = a;
        for (ptrdiff_t i = 0; i < n; i++) {
            const uint32_t word = (uint32_t)(words[i] >> j);
            const __m512i add = _mm512_set1_epi64((int64_t)v[i]);
            all = _mm512_add_epi64(all, add);
            a = _mm512_mask_add_epi64(a, (__mmask8)word, a, add);
            b = _mm512_mask_add_epi64(b, (__mmask8)(word >> 8), b, add);
            c = _mm512_mask_add_epi64(c, (__mmask8)(word >> 16), c, add);
            d = _mm512_mask_add_epi64(d, (__mmask8)(word >> 24), d, add);
        }
#define EXPFAM_STORE(x, at)                                                                                 \
    _mm512_storeu_si512(dots + j + at, _mm512_add_epi64(_mm512_loadu_si512(dots + j + at),                  \
                                                        _mm512_sub_epi64(_mm512_add_epi64(x, x), all)))
        EXPFAM_STORE(a, 0);
        EXPFAM_STORE(b, 8);
        EXPFAM_STORE(c, 16);
        EXPFAM_STORE(d, 24);
#undef EXPFAM_STORE
    }
}

EXPFAM_AVX512 static void expfam_sign_add_real_avx512(const uint64_t *words, const double *v, ptrdiff_t n,
                                                     double *dots) {
    for (int j = 0; j < 64; j += 32) {
        __m512d a = _mm512_loadu_pd(dots + j), b = _mm512_loadu_pd(dots + j + 8);
        __m512d c = _mm512_loadu_pd(dots + j + 16), d = _mm512_loadu_pd(dots + j + 24);
        for (ptrdiff_t i = 0; i < n; i++) {
            const uint32_t word = (uint32_t)(words[i] >> j);
            const __m512d plus = _mm512_set1_pd(v[i]), minus = _mm512_set1_pd(-v[i]);
            a = _mm512_add_pd(a, _mm512_mask_blend_pd((__mmask8)word, minus, plus));
            b = _mm512_add_pd(b, _mm512_mask_blend_pd((__mmask8)(word >> 8), minus, plus));
            c = _mm512_add_pd(c, _mm512_mask_blend_pd((__mmask8)(word >> 16), minus, plus));
            d = _mm512_add_pd(d, _mm512_mask_blend_pd((__mmask8)(word >> 24), minus, plus));
        }
        _mm512_storeu_pd(dots + j, a);
        _mm512_storeu_pd(dots + j + 8, b);
        _mm512_storeu_pd(dots + j + 16, c);
        _mm512_storeu_pd(dots + j + 24, d);
    }
}
#endif
#define EXPFAM_WRITTEN(NAME, TARGET) /* its instances are written above */
EXPFAM_INSTANCES(EXPFAM_WRITTEN, void, expfam_sign_add_32, (const uint64_t *, const uint32_t *, ptrdiff_t, uint32_t *))
EXPFAM_INSTANCES(EXPFAM_WRITTEN, void, expfam_sign_add_64, (const uint64_t *, const uint64_t *, ptrdiff_t, uint64_t *))
EXPFAM_INSTANCES(EXPFAM_WRITTEN, void, expfam_sign_add_real, (const uint64_t *, const double *, ptrdiff_t, double *))

/* dots[t] += sum_i table[byte t of words[i]] v[i], t < 8: entries are quantiles, not signs. */
#define EXPFAM_BYTE_ADD(NAME, TARGET, TYPE)                                                                 \
    TARGET EXPFAM_UNFUSED static void NAME(const uint64_t *words, const TYPE *v, const TYPE *table, ptrdiff_t n, \
                                           TYPE *dots) {                                                    \
        EXPFAM_UNFUSED_BODY                                                                                 \
        for (ptrdiff_t i = 0; i < n; i++)                                                                   \
            for (int t = 0; t < 8; t++) dots[t] += table[words[i] >> (8 * t) & 255] * v[i];                 \
    }
#define EXPFAM_BYTE_ADD_32(NAME, TARGET) EXPFAM_BYTE_ADD(NAME, TARGET, uint32_t)
#define EXPFAM_BYTE_ADD_64(NAME, TARGET) EXPFAM_BYTE_ADD(NAME, TARGET, uint64_t)
#define EXPFAM_BYTE_ADD_REAL(NAME, TARGET) EXPFAM_BYTE_ADD(NAME, TARGET, double)
EXPFAM_INSTANCES(EXPFAM_BYTE_ADD_32, void, expfam_byte_add_32,
                 (const uint64_t *, const uint32_t *, const uint32_t *, ptrdiff_t, uint32_t *))
EXPFAM_INSTANCES(EXPFAM_BYTE_ADD_64, void, expfam_byte_add_64,
                 (const uint64_t *, const uint64_t *, const uint64_t *, ptrdiff_t, uint64_t *))
EXPFAM_INSTANCES(EXPFAM_BYTE_ADD_REAL, void, expfam_byte_add_real,
                 (const uint64_t *, const double *, const double *, ptrdiff_t, double *))

/* dots[j] += sum_i entries[i][j] v[i], j < n_bits: the sums of EXPFAM_BYTE_ADD, bit for bit, with entries looked up
 * before. Sums of 64 bits stay in registers. */
#define EXPFAM_ENTRIES_ADD(NAME, TARGET)                                                                    \
    TARGET EXPFAM_UNFUSED static void NAME(const double *entries, const double *v, ptrdiff_t n, ptrdiff_t n_bits, \
                                           double *dots) {                                                  \
        EXPFAM_UNFUSED_BODY                                                                                 \
        for (ptrdiff_t p = 0; p < n_bits; p += 64) {                                                        \
            double sums[64];                                                                                \
            memcpy(sums, dots + p, sizeof sums);                                                            \
            for (ptrdiff_t i = 0; i < n; i++) {                                                             \
                const double *row = entries + i * n_bits + p;                                               \
                EXPFAM_SIMD                                                                                 \
                for (int j = 0; j < 64; j++) sums[j] += row[j] * v[i];                                      \
            }                                                                                               \
            memcpy(dots + p, sums, sizeof sums);                                                            \
        }                                                                                                   \
    }
EXPFAM_INSTANCES(EXPFAM_ENTRIES_ADD, void, expfam_entries_add,
                 (const double *, const double *, ptrdiff_t, ptrdiff_t, double *))

/* Return the word whose bit j says dots[j] > centre[j]; if both are equal, it is bit j of `tie`. */
#define EXPFAM_SIGN_BITS(NAME, TARGET, TYPE)                                                                \
    TARGET static uint64_t NAME(const TYPE *dots, const TYPE *centre, uint64_t tie) {                       \
        uint64_t above = 0, equal = 0;                                                                      \
        EXPFAM_PRAGMA(omp simd reduction(| : above, equal))                                                 \
        for (int j = 0; j < 64; j++) {                                                                      \
            above |= (uint64_t)(dots[j] > centre[j]) << j; /* no branch: half of the bits are set */         \
            equal |= (uint64_t)(dots[j] == centre[j]) << j;                                                 \
        }                                                                                                   \
        return above | (equal & tie);                                                                       \
    }
#define EXPFAM_SIGN_BITS_32(NAME, TARGET) EXPFAM_SIGN_BITS(NAME, TARGET, int32_t)
#define EXPFAM_SIGN_BITS_64(NAME, TARGET) EXPFAM_SIGN_BITS(NAME, TARGET, int64_t)
#define EXPFAM_SIGN_BITS_REAL(NAME, TARGET) EXPFAM_SIGN_BITS(NAME, TARGET, double)
EXPFAM_INSTANCES(EXPFAM_SIGN_BITS_32, uint64_t, expfam_sign_bits_32, (const int32_t *, const int32_t *, uint64_t))
EXPFAM_INSTANCES(EXPFAM_SIGN_BITS_64, uint64_t, expfam_sign_bits_64, (const int64_t *, const int64_t *, uint64_t))
EXPFAM_INSTANCES(EXPFAM_SIGN_BITS_REAL, uint64_t, expfam_sign_bits_real, (const double *, const double *, uint64_t))
#endif

/* Scores of all columns of a table of logs of counts for the entries of one datum. The logs are bytes or floats.
 * Instances: baseline, AVX2, AVX-512; scores from bytes use AVX-512 with VBMI, and without it the AVX2 instance.
 *
 * Rows of the table are added for the entries of a datum; a row has one entry for each column, and n is a multiple of
 * 64. For a word that occurs more than once, the byte of each column is looked up in the word's own table of 256 sums:
 * first their low bytes, then their high bytes; the sum of byte 0 is 0. All sums are integers below 2^16, and no
 * product is fused with a sum, so all instances give bitwise the same results. Columns are processed in ranges whose
 * sums stay in the nearest cache.
 */
#ifndef EXPFAM_BYTE_LOGS_H
#define EXPFAM_BYTE_LOGS_H
#include "dispatch.h"
#if EXPFAM_DISPATCH
#include <immintrin.h>
#endif

#define EXPFAM_STRETCH 2048
EXPFAM_INLINE void expfam_look_up_base(const uint8_t *row, const uint8_t *table, uint16_t *sums, ptrdiff_t m) {
    for (ptrdiff_t j = 0; j < m; j += 8) {
        uint64_t eight;
        memcpy(&eight, row + j, 8);
        if (eight) /* most words occur in few clusters */
            for (int i = 0; i < 8; i++)
                sums[j + i] = (uint16_t)(sums[j + i] + table[row[j + i]] + 256 * table[256 + row[j + i]]);
    }
}
EXPFAM_INLINE void expfam_widen_base(const uint8_t *a, const uint8_t *b, const uint8_t *c, const uint8_t *d,
                                     uint16_t *sums, ptrdiff_t m) {
    EXPFAM_SIMD
    for (ptrdiff_t j = 0; j < m; j++) sums[j] = (uint16_t)(sums[j] + a[j] + b[j] + c[j] + d[j]);
}
#if EXPFAM_DISPATCH
/* Written out, because compilers split registers of bytes into halves. */
#define EXPFAM_WIDE_256(row) _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(row)))
EXPFAM_AVX2 EXPFAM_INLINE void expfam_widen_avx2(const uint8_t *a, const uint8_t *b, const uint8_t *c, const uint8_t *d,
                                                 uint16_t *sums, ptrdiff_t m) {
    for (ptrdiff_t j = 0; j < m; j += 16) {
        const __m256i ab = _mm256_add_epi16(EXPFAM_WIDE_256(a + j), EXPFAM_WIDE_256(b + j));
        const __m256i cd = _mm256_add_epi16(EXPFAM_WIDE_256(c + j), EXPFAM_WIDE_256(d + j));
        const __m256i old = _mm256_loadu_si256((const __m256i *)(sums + j));
        _mm256_storeu_si256((__m256i *)(sums + j), _mm256_add_epi16(old, _mm256_add_epi16(ab, cd)));
    }
}
/* Look up sixteen entries at a time: bytes with the right high four bits select by their low four bits. */
EXPFAM_AVX2 EXPFAM_INLINE void expfam_look_up_avx2(const uint8_t *row, const uint8_t *table, uint16_t *sums,
                                                   ptrdiff_t m) {
    for (ptrdiff_t j = 0; j < m; j += 32) {
        const __m256i byte = _mm256_loadu_si256((const __m256i *)(row + j));
        __m256i low = _mm256_setzero_si256(), high = low, *out = (__m256i *)(sums + j);
        const int parts = _mm256_movemask_epi8(byte) ? 16 : 8; /* counts of a hundred and more are rare */
        if (_mm256_testz_si256(byte, byte)) continue;
        for (int part = 0; part < parts; part++) { /* other bytes become larger than 127, for which a shuffle gives 0 */
            const __m256i own = _mm256_xor_si256(byte, _mm256_set1_epi8((char)(16 * part)));
            const __m256i at = _mm256_adds_epu8(own, _mm256_set1_epi8(112));
            const __m128i *from = (const __m128i *)(table + 16 * part);
            low = _mm256_or_si256(low, _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(from)), at));
            high = _mm256_or_si256(
                high, _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(from + 16)), at));
        }
        /* 0-7 16-23, 8-15 24-31 */
        const __m256i a = _mm256_unpacklo_epi8(low, high), b = _mm256_unpackhi_epi8(low, high);
        const __m256i c = _mm256_permute2x128_si256(a, b, 0x20), d = _mm256_permute2x128_si256(a, b, 0x31);
        _mm256_storeu_si256(out, _mm256_add_epi16(_mm256_loadu_si256(out), c));
        _mm256_storeu_si256(out + 1, _mm256_add_epi16(_mm256_loadu_si256(out + 1), d));
    }
}
#endif
/* Sum columns first..first + m - 1; if the last four rows are not complete, a row of zeros is used. */
#define EXPFAM_SUM_BYTES(WIDEN, LOOK_UP)                                                                    \
    static const uint8_t none[EXPFAM_STRETCH];                                                              \
    memset(sums, 0, m * sizeof(uint16_t));                                                                  \
    for (ptrdiff_t r = 0; r < n_rows; r += 4)                                                               \
        WIDEN(rows[r] + first, r + 1 < n_rows ? rows[r + 1] + first : none,                                 \
              r + 2 < n_rows ? rows[r + 2] + first : none, r + 3 < n_rows ? rows[r + 3] + first : none, sums, m); \
    for (ptrdiff_t r = 0; r < n_repeated; r++) LOOK_UP(repeated[r] + first, tables[r], sums, m);
EXPFAM_INLINE void expfam_sum_bytes_base(const uint8_t *const *rows, ptrdiff_t n_rows, const uint8_t *const *repeated,
                                         const uint8_t *const *tables, ptrdiff_t n_repeated, ptrdiff_t first,
                                         ptrdiff_t m, uint16_t *sums) {
    EXPFAM_SUM_BYTES(expfam_widen_base, expfam_look_up_base)
}
#if EXPFAM_DISPATCH
EXPFAM_AVX2 EXPFAM_INLINE void expfam_sum_bytes_avx2(const uint8_t *const *rows, ptrdiff_t n_rows,
                                                     const uint8_t *const *repeated, const uint8_t *const *tables,
                                                     ptrdiff_t n_repeated, ptrdiff_t first, ptrdiff_t m,
                                                     uint16_t *sums) {
    EXPFAM_SUM_BYTES(expfam_widen_avx2, expfam_look_up_avx2)
}
#define EXPFAM_AVX512_VBMI                                                                                  \
    __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,avx512vbmi,avx2,fma,prefer-vector-width=512")))
/* Look up 64 entries of the low or the high bytes of a table; k marks bytes from 128 on. */
EXPFAM_AVX512_VBMI EXPFAM_INLINE __m512i expfam_look_up_64(const uint8_t *table, __m512i x, __mmask64 k) {
    const __m512i low = _mm512_permutex2var_epi8(_mm512_loadu_si512(table), x, _mm512_loadu_si512(table + 64));
    if (!k) return low; /* counts of a hundred and more are rare */
    return _mm512_mask_blend_epi8(
        k, low, _mm512_permutex2var_epi8(_mm512_loadu_si512(table + 128), x, _mm512_loadu_si512(table + 192)));
}
/* Two bytes are read as x = even + 256 odd: the sums of x and of odd = x >> 8 give the sum of even, without separating
 * the bytes. High bytes of tables are multiplied by 256, so that only the even part of x remains. All modulo 2^16. */
EXPFAM_AVX512_VBMI EXPFAM_INLINE void expfam_sum_lines(const uint8_t *const *rows, ptrdiff_t n_rows,
                                                       const uint8_t *const *repeated, const uint8_t *const *tables,
                                                       ptrdiff_t n_repeated, ptrdiff_t at, uint16_t *sums,
                                                       const int lines) {
    __m512i both[4], odd[4], high_both[4], high_odd[4], x;
    const __m512i left = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8,
                                          39, 7, 38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
    const __m512i right = _mm512_add_epi16(left, _mm512_set1_epi16(16));
    for (int t = 0; t < lines; t++) both[t] = odd[t] = high_both[t] = high_odd[t] = _mm512_setzero_si512();
    for (ptrdiff_t r = 0; r < n_rows; r++)
        for (int t = 0; t < lines; t++) {
            x = _mm512_loadu_si512(rows[r] + at + 64 * t);
            both[t] = _mm512_add_epi16(both[t], x);
            odd[t] = _mm512_add_epi16(odd[t], _mm512_srli_epi16(x, 8));
        }
    for (ptrdiff_t r = 0; r < n_repeated; r++)
        for (int t = 0; t < lines; t++) {
            const __m512i byte = _mm512_loadu_si512(repeated[r] + at + 64 * t);
            const __mmask64 k = _mm512_movepi8_mask(byte);
            x = expfam_look_up_64(tables[r], byte, k);
            both[t] = _mm512_add_epi16(both[t], x);
            odd[t] = _mm512_add_epi16(odd[t], _mm512_srli_epi16(x, 8));
            x = expfam_look_up_64(tables[r] + 256, byte, k);
            high_both[t] = _mm512_add_epi16(high_both[t], x);
            high_odd[t] = _mm512_add_epi16(high_odd[t], _mm512_srli_epi16(x, 8));
        }
    for (int t = 0; t < lines; t++) {
        __m512i even = _mm512_sub_epi16(both[t], _mm512_slli_epi16(odd[t], 8));
        even = _mm512_add_epi16(even, _mm512_slli_epi16(high_both[t], 8));
        odd[t] = _mm512_add_epi16(odd[t], _mm512_slli_epi16(high_odd[t], 8));
        _mm512_storeu_si512(sums + 64 * t, _mm512_permutex2var_epi16(even, left, odd[t]));
        _mm512_storeu_si512(sums + 64 * t + 32, _mm512_permutex2var_epi16(even, right, odd[t]));
    }
}
EXPFAM_AVX512_VBMI EXPFAM_INLINE void expfam_sum_bytes_avx512(const uint8_t *const *rows, ptrdiff_t n_rows,
                                                              const uint8_t *const *repeated,
                                                              const uint8_t *const *tables, ptrdiff_t n_repeated,
                                                              ptrdiff_t first, ptrdiff_t m, uint16_t *sums) {
    ptrdiff_t j = 0;
    for (; j + 256 <= m; j += 256) expfam_sum_lines(rows, n_rows, repeated, tables, n_repeated, first + j, sums + j, 4);
    for (; j < m; j += 64) expfam_sum_lines(rows, n_rows, repeated, tables, n_repeated, first + j, sums + j, 1);
}
#endif
#define EXPFAM_BYTE_SCORES(NAME, TARGET, SUM)                                                               \
    TARGET EXPFAM_UNFUSED static void NAME(const uint8_t *const *rows, ptrdiff_t n_rows,                    \
                                           const uint8_t *const *repeated, const uint8_t *const *tables,    \
                                           ptrdiff_t n_repeated, float step, float *scores, ptrdiff_t n) {  \
        EXPFAM_UNFUSED_BODY                                                                                 \
        uint16_t sums[EXPFAM_STRETCH];                                                                      \
        for (ptrdiff_t first = 0; first < n; first += EXPFAM_STRETCH) {                                     \
            ptrdiff_t m = n - first < EXPFAM_STRETCH ? n - first : EXPFAM_STRETCH;                          \
            SUM(rows, n_rows, repeated, tables, n_repeated, first, m, sums);                                \
            EXPFAM_SIMD                                                                                     \
            for (ptrdiff_t j = 0; j < m; j++) scores[first + j] += step * (float)sums[j];                   \
        }                                                                                                   \
    }
/* As EXPFAM_INSTANCES; BODY takes one more argument, the written-out part of its instance. */
#if EXPFAM_DISPATCH
/* expfam_isa() for loops that look up bytes in registers: 2 only where vectors have VBMI. */
static int expfam_vbmi_isa(void) {
    int level = expfam_isa();
    return level == 2 && !__builtin_cpu_supports("avx512vbmi") ? 1 : level;
}
#define EXPFAM_VBMI_INSTANCES(BODY, result, name, arguments, part)                                          \
    BODY(name##_base, , part##_base) BODY(name##_avx2, EXPFAM_AVX2, part##_avx2)                            \
    BODY(name##_avx512, EXPFAM_AVX512_VBMI, part##_avx512)                                                  \
    EXPFAM_CALLED(result, name, arguments, expfam_vbmi_isa)
#else
#define EXPFAM_VBMI_INSTANCES(BODY, result, name, arguments, part)                                          \
    BODY(name##_base, , part##_base) EXPFAM_UNUSED static result (*name) arguments = name##_base;
#endif
EXPFAM_VBMI_INSTANCES(EXPFAM_BYTE_SCORES, void, expfam_byte_scores,
                      (const uint8_t *const *, ptrdiff_t, const uint8_t *const *, const uint8_t *const *, ptrdiff_t,
                       float, float *, ptrdiff_t), expfam_sum_bytes)

/* out = (1 - part) a + part b, 0 < part < 1; -inf where both are. */
#define EXPFAM_BETWEEN(NAME, TARGET)                                                                        \
    TARGET EXPFAM_UNFUSED static void NAME(const float *a, const float *b, float part, float *out, ptrdiff_t n) { \
        EXPFAM_UNFUSED_BODY                                                                                 \
        const float rest = 1.0f - part;                                                                     \
        EXPFAM_SIMD                                                                                         \
        for (ptrdiff_t j = 0; j < n; j++) out[j] = rest * a[j] + part * b[j];                               \
    }
EXPFAM_INSTANCES(EXPFAM_BETWEEN, void, expfam_between, (const float *, const float *, float, float *, ptrdiff_t))

#define EXPFAM_FLOAT_ROWS(NAME, TARGET)                                                                     \
    TARGET static void NAME(const float *const *rows, ptrdiff_t n_rows, float *scores, ptrdiff_t n) {       \
        for (ptrdiff_t first = 0; first < n; first += EXPFAM_STRETCH) {                                     \
            ptrdiff_t m = n - first < EXPFAM_STRETCH ? n - first : EXPFAM_STRETCH, r = 0;                   \
            float *out = scores + first;                                                                    \
            for (; r + 3 < n_rows; r += 4) {                                                                \
                const float *a = rows[r] + first, *b = rows[r + 1] + first;                                 \
                const float *c = rows[r + 2] + first, *d = rows[r + 3] + first;                             \
                EXPFAM_SIMD                                                                                 \
                for (ptrdiff_t j = 0; j < m; j++) out[j] += (a[j] + b[j]) + (c[j] + d[j]);                  \
            }                                                                                               \
            for (; r < n_rows; r++) {                                                                       \
                const float *a = rows[r] + first;                                                           \
                EXPFAM_SIMD                                                                                 \
                for (ptrdiff_t j = 0; j < m; j++) out[j] += a[j];                                           \
            }                                                                                               \
        }                                                                                                   \
    }
EXPFAM_INSTANCES(EXPFAM_FLOAT_ROWS, void, expfam_float_rows, (const float *const *, ptrdiff_t, float *, ptrdiff_t))

#define EXPFAM_MAX_FLOAT(NAME, TARGET)                                                                      \
    TARGET static float NAME(const float *x, ptrdiff_t n) {                                                 \
        float best = -INFINITY;                                                                             \
        EXPFAM_SIMD_MAX(best)                                                                               \
        for (ptrdiff_t j = 0; j < n; j++) best = x[j] > best ? x[j] : best;                                 \
        return best;                                                                                        \
    }
EXPFAM_INSTANCES(EXPFAM_MAX_FLOAT, float, expfam_max_float, (const float *, ptrdiff_t))
#endif

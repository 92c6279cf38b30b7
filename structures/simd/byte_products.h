/* Products of rows with many points, both as small integers, and what codes of real numbers differ by. Instances of the
 * products: baseline, AVX2 with VNNI, AVX-512 with VNNI; all give the same floats. Machines without VNNI take the
 * baseline, which is slower than products of floats.
 *
 * A block stores EXPFAM_CODE_POINTS points in groups of four coordinates: byte t of point k in group g of its block is at
 * 4 EXPFAM_CODE_POINTS g + 4 k + t. Entries of points are stored plus 128, those of rows as they are; both are in
 * -127..127. Rows follow each other, with 0 up to a whole group.
 */
#ifndef EXPFAM_BYTE_PRODUCTS_H
#define EXPFAM_BYTE_PRODUCTS_H
#include "vnni.h"

#define EXPFAM_CODE_POINTS 32
#define EXPFAM_CODE_ROWS 8
#define EXPFAM_CODE_GROUP (4 * EXPFAM_CODE_POINTS)

/* out[r stride + k] = row_scales[r] point_scales[k] <row r, point k> of EXPFAM_CODE_ROWS rows; `sums` are those of the
 * entries of each row. */
#define EXPFAM_BYTE_PRODUCTS_OF                                                                             \
    (const int8_t *rows, const float *row_scales, const int32_t *sums, const uint8_t *points,               \
     const float *point_scales, ptrdiff_t n_groups, ptrdiff_t n_blocks, float *out, ptrdiff_t stride)

static void expfam_byte_products_base EXPFAM_BYTE_PRODUCTS_OF {
    for (ptrdiff_t b = 0; b < n_blocks; b++, points += EXPFAM_CODE_GROUP * n_groups) {
        const float *scales = point_scales + b * EXPFAM_CODE_POINTS;
        for (ptrdiff_t r = 0; r < EXPFAM_CODE_ROWS; r++) {
            const int8_t *x = rows + 4 * n_groups * r;
            int32_t dots[EXPFAM_CODE_POINTS] = {0};
            for (ptrdiff_t g = 0; g < n_groups; g++, x += 4) {
                const uint8_t *four = points + EXPFAM_CODE_GROUP * g;
                EXPFAM_SIMD
                for (ptrdiff_t k = 0; k < EXPFAM_CODE_POINTS; k++)
                    dots[k] += x[0] * four[4 * k] + x[1] * four[4 * k + 1] + x[2] * four[4 * k + 2] + x[3] * four[4 * k + 3];
            }
            for (ptrdiff_t k = 0; k < EXPFAM_CODE_POINTS; k++)
                out[r * stride + b * EXPFAM_CODE_POINTS + k] = (float)(dots[k] - 128 * sums[r]) * (row_scales[r] * scales[k]);
        }
    }
}

#if EXPFAM_DISPATCH
/* VNNI without AVX-512: older compilers do not know its instructions, and clang does not know how to ask for it. */
#if !defined(__clang__) && __GNUC__ >= 12
#define EXPFAM_HAS_AVX_VNNI __builtin_cpu_supports("avxvnni")
#else
#define EXPFAM_HAS_AVX_VNNI 0
#endif
/* One body for both widths: the sums of four rows and two vectors of points stay in registers. */
#define EXPFAM_BYTE_PRODUCTS(NAME, TARGET, INTS, FLOATS, LOAD, ALL, MULTIPLY, TO_FLOATS, TIMES, ALL_FLOATS, FLOAT_LOAD, \
                             STORE, ROWS, LANES)                                                            \
    TARGET static void NAME EXPFAM_BYTE_PRODUCTS_OF {                                                       \
        for (ptrdiff_t b = 0; b < n_blocks; b++, points += EXPFAM_CODE_GROUP * n_groups)                    \
            for (ptrdiff_t first = 0; first < EXPFAM_CODE_ROWS; first += ROWS)                              \
                for (ptrdiff_t lane = 0; lane < EXPFAM_CODE_POINTS; lane += 2 * LANES) {                    \
                    const int8_t *x = rows + 4 * n_groups * first;                                          \
                    const uint8_t *four = points + 4 * lane;                                                \
                    const ptrdiff_t place = b * EXPFAM_CODE_POINTS + lane;                                  \
                    INTS low[ROWS], high[ROWS];                                                             \
                    for (int r = 0; r < ROWS; r++) low[r] = high[r] = ALL(-128 * sums[first + r]);          \
                    for (ptrdiff_t g = 0; g < n_groups; g++, four += EXPFAM_CODE_GROUP, x += 4) {           \
                        const INTS u = LOAD((const void *)four), v = LOAD((const void *)(four + 4 * LANES)); \
                        EXPFAM_PRAGMA(GCC unroll 8)                                                         \
                        for (int r = 0; r < ROWS; r++) {                                                    \
                            int32_t entries;                                                                \
                            memcpy(&entries, x + 4 * n_groups * r, 4);                                      \
                            const INTS row = ALL(entries);                                                  \
                            low[r] = MULTIPLY(low[r], u, row), high[r] = MULTIPLY(high[r], v, row);         \
                        }                                                                                   \
                    }                                                                                       \
                    const FLOATS u = FLOAT_LOAD(point_scales + place), v = FLOAT_LOAD(point_scales + place + LANES); \
                    for (int r = 0; r < ROWS; r++) {                                                        \
                        const FLOATS scale = ALL_FLOATS(row_scales[first + r]);                             \
                        float *to = out + (first + r) * stride + place;                                     \
                        STORE(to, TIMES(TO_FLOATS(low[r]), TIMES(scale, u)));                               \
                        STORE(to + LANES, TIMES(TO_FLOATS(high[r]), TIMES(scale, v)));                      \
                    }                                                                                       \
                }                                                                                           \
    }
#if !defined(__clang__) && __GNUC__ >= 12
#define EXPFAM_LOAD_256(address) _mm256_loadu_si256((const __m256i *)(address))
EXPFAM_BYTE_PRODUCTS(expfam_byte_products_avx2, __attribute__((target("avxvnni,avx2,fma"))), __m256i, __m256,
                     EXPFAM_LOAD_256, _mm256_set1_epi32, _mm256_dpbusd_avx_epi32, _mm256_cvtepi32_ps, _mm256_mul_ps,
                     _mm256_set1_ps, _mm256_loadu_ps, _mm256_storeu_ps, 4, 8)
#else
#define expfam_byte_products_avx2 expfam_byte_products_base
#endif
EXPFAM_BYTE_PRODUCTS(expfam_byte_products_avx512, EXPFAM_AVX512_VNNI, __m512i, __m512, _mm512_loadu_si512,
                     _mm512_set1_epi32, _mm512_dpbusd_epi32, _mm512_cvtepi32_ps, _mm512_mul_ps, _mm512_set1_ps,
                     _mm512_loadu_ps, _mm512_storeu_ps, 8, 16)

EXPFAM_UNUSED static int expfam_byte_isa(void) {
    if (expfam_has_avx512_vnni()) return 2;
    return expfam_isa() && EXPFAM_HAS_AVX_VNNI ? 1 : 0;
}
EXPFAM_CALLED(void, expfam_byte_products, EXPFAM_BYTE_PRODUCTS_OF, expfam_byte_isa)
#else
EXPFAM_UNUSED static void(*expfam_byte_products) EXPFAM_BYTE_PRODUCTS_OF = expfam_byte_products_base;
EXPFAM_UNUSED static int expfam_byte_isa(void) { return 0; }
#endif

/* The largest size of an entry. */
#define EXPFAM_LARGEST_ENTRY(NAME, TARGET)                                                                  \
    TARGET static float NAME(const float *x, ptrdiff_t n) {                                                 \
        float largest = 0.0f;                                                                               \
        EXPFAM_SIMD_MAX(largest)                                                                            \
        for (ptrdiff_t j = 0; j < n; j++) {                                                                 \
            const float size = fabsf(x[j]);                                                                 \
            largest = size > largest ? size : largest;                                                      \
        }                                                                                                   \
        return largest;                                                                                     \
    }
EXPFAM_INSTANCES(EXPFAM_LARGEST_ENTRY, float, expfam_largest_entry, (const float *, ptrdiff_t))

/* Codes the entries as the nearest integers times `scale`; writes the squared lengths of what is lost, of x and of the
 * codes as real numbers, and returns the sum of the codes. The first two are sums in single precision. */
#define EXPFAM_CODED(NAME, TARGET)                                                                          \
    TARGET static int32_t NAME(const float *x, float scale, ptrdiff_t n, int8_t *codes, double *squares) {  \
        const float factor = scale > 0.0f ? 1.0f / scale : 0.0f;                                            \
        float lost = 0.0f, square = 0.0f;                                                                   \
        int32_t total = 0, kept = 0;                                                                        \
        EXPFAM_PRAGMA(omp simd reduction(+ : lost, square, total, kept))                                    \
        for (ptrdiff_t j = 0; j < n; j++) {                                                                 \
            const float real = x[j] * factor;                                                               \
            const int32_t near = (int32_t)(real + (real < 0.0f ? -0.5f : 0.5f));                            \
            const int32_t code = near > 127 ? 127 : near < -127 ? -127 : near;                              \
            const float gap = real - (float)code;                                                           \
            lost += gap * gap, square += real * real;                                                       \
            total += code, kept += code * code;                                                             \
            codes[j] = (int8_t)code;                                                                        \
        }                                                                                                   \
        const double unit = (double)scale * scale;                                                          \
        squares[0] = unit * lost, squares[1] = unit * square, squares[2] = unit * kept;                     \
        return total;                                                                                       \
    }
EXPFAM_INSTANCES(EXPFAM_CODED, int32_t, expfam_coded, (const float *, float, ptrdiff_t, int8_t *, double *))
#endif

/* Unnormalised softmax weights of a row of scores in single precision, and a draw from them by one uniform number.
 * Instances: baseline, AVX2, AVX-512. All give bitwise the same results: sums run in lanes in a fixed order, and a
 * product is never fused with a sum.
 */
#ifndef EXPFAM_FLOAT_SOFTMAX_H
#define EXPFAM_FLOAT_SOFTMAX_H
#include "dispatch.h"

#define EXPFAM_SUM_LANES 16

/* x := exp(max(x - shift, -80)), 0 where x is -inf. The sum of each block of 64 is written to `sums`; the total is
 * returned. The exponential has a relative error of 8e-5. The draw is exact nevertheless: its law is these weights. */
#define EXPFAM_FLOAT_EXP_BLOCKS(NAME, TARGET)                                                               \
    TARGET EXPFAM_UNFUSED static double NAME(float *x, float shift, float *sums, ptrdiff_t n_blocks) {      \
        EXPFAM_UNFUSED_BODY                                                                                 \
        const float low = shift - 80.0f; /* a variable: a constant bound becomes a branch, and nothing vectorises */ \
        double total = 0.0;                                                                                 \
        for (ptrdiff_t b = 0; b < n_blocks; b++) {                                                          \
            float lanes[EXPFAM_SUM_LANES], *row = x + 64 * b;                                               \
            EXPFAM_SIMD                                                                                     \
            for (int i = 0; i < 64; i++) {                                                                  \
                const float u = ((row[i] < low ? low : row[i]) - shift) * 1.44269504f;                      \
                const float whole = u + 12582912.0f, f = u - (whole - 12582912.0f);                         \
                const float w = ((5.51714178e-2f * f + 2.42611170e-1f) * f + 6.93261056e-1f) * f +          \
                                9.99928073e-1f; /* 2^f */                                                   \
                uint32_t bits, steps, before;                                                               \
                memcpy(&before, row + i, 4);                                                                \
                memcpy(&steps, &whole, 4);                                                                  \
                memcpy(&bits, &w, 4);                                                                       \
                bits += steps << 23; /* 12582912 = 0x4b400000 is 0 modulo 2^9 */                            \
                bits &= before == UINT32_C(0xff800000) ? 0 : UINT32_C(0xffffffff); /* -inf; a NaN stays a NaN */ \
                memcpy(row + i, &bits, 4);                                                                  \
            }                                                                                               \
            EXPFAM_SIMD                                                                                     \
            for (int j = 0; j < EXPFAM_SUM_LANES; j++)                                                      \
                lanes[j] = (row[j] + row[j + 16]) + (row[j + 32] + row[j + 48]);                            \
            EXPFAM_SIMD                                                                                     \
            for (int j = 0; j < 8; j++) lanes[j] += lanes[j + 8];                                           \
            EXPFAM_SIMD                                                                                     \
            for (int j = 0; j < 4; j++) lanes[j] += lanes[j + 4];                                           \
            sums[b] = (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);                                        \
            total += sums[b];                                                                               \
        }                                                                                                   \
        return total;                                                                                       \
    }
EXPFAM_INSTANCES(EXPFAM_FLOAT_EXP_BLOCKS, double, expfam_float_exp_blocks, (float *, float, float *, ptrdiff_t))

/* Draw an index with the weights of expfam_float_exp_blocks by one uniform number in [0, 1): a block, then in it. */
EXPFAM_UNUSED static ptrdiff_t expfam_float_pick(const float *w, const float *sums, double total, double uniform,
                                                 ptrdiff_t n) {
    double left = uniform * total;
    ptrdiff_t b = 0, last = (n - 1) / 64, i, stop;
    while (b < last && left >= sums[b]) left -= sums[b++];
    stop = 64 * b + 64 < n ? 64 * b + 64 : n;
    for (i = 64 * b; i < stop - 1 && left >= w[i]; i++) left -= w[i];
    /* rounding may lead past the last positive weight: step back to it */
    while (i > 0 && w[i] == 0.0f) i--;
    if (w[i] == 0.0f) while (i < n - 1 && w[i] == 0.0f) i++;
    return i;
}
#endif

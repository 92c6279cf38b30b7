/* Unnormalised softmax weights of a row of log weights in double precision, and a draw from them by one uniform number:
 * inversion of the distribution function, first over blocks, then in a block. Instances: baseline, AVX2, AVX-512.
 */
#ifndef EXPFAM_SOFTMAX_H
#define EXPFAM_SOFTMAX_H
#include "blocks.h"
#include "elementary.h"

#define EXPFAM_MAX(NAME, TARGET)                                                                            \
    TARGET static double NAME(const double *x, ptrdiff_t n) {                                               \
        double best = -INFINITY;                                                                            \
        EXPFAM_SIMD_MAX(best)                                                                               \
        for (ptrdiff_t i = 0; i < n; i++) best = x[i] > best ? x[i] : best;                                 \
        return best;                                                                                        \
    }
EXPFAM_INSTANCES(EXPFAM_MAX, double, expfam_max, (const double *, ptrdiff_t))

/* x := exp(x - shift), exactly 0 from 700 nats below the shift on (so -inf gives 0). The sum of each block of 64 is
 * written to `sums`; the total is returned. These weights and sums are the law of the draw that follows. */
#define EXPFAM_EXP_BLOCKS(NAME, TARGET)                                                                     \
    TARGET static double NAME(double *x, double shift, double *sums, ptrdiff_t n) {                         \
        double total = 0.0;                                                                                 \
        for (ptrdiff_t b = 0; b * EXPFAM_BLOCK < n; b++) {                                                  \
            double sum = 0.0, *row = x + b * EXPFAM_BLOCK;                                                  \
            ptrdiff_t m = n - b * EXPFAM_BLOCK < EXPFAM_BLOCK ? n - b * EXPFAM_BLOCK : EXPFAM_BLOCK;        \
            EXPFAM_SIMD_SUM(sum)                                                                            \
            for (ptrdiff_t i = 0; i < m; i++) {                                                             \
                double t = row[i] - shift, w = expfam_exp1(t);                                              \
                w = t <= -700.0 ? 0.0 : w; /* a NaN stays a NaN, also in the total */                       \
                row[i] = w;                                                                                 \
                sum += w;                                                                                   \
            }                                                                                               \
            sums[b] = sum;                                                                                  \
            total += sum;                                                                                   \
        }                                                                                                   \
        return total;                                                                                       \
    }
EXPFAM_INSTANCES(EXPFAM_EXP_BLOCKS, double, expfam_exp_blocks, (double *, double, double *, ptrdiff_t))

/* Draw an index with the weights of expfam_exp_blocks by one uniform number in [0, 1): first a block, then in it. */
EXPFAM_UNUSED static ptrdiff_t expfam_pick(const double *w, const double *sums, double total, double uniform,
                                           ptrdiff_t n) {
    double left = uniform * total;
    ptrdiff_t b = 0, last = (n - 1) / EXPFAM_BLOCK, i, stop;
    while (b < last && left >= sums[b]) left -= sums[b++];
    stop = (b + 1) * EXPFAM_BLOCK < n ? (b + 1) * EXPFAM_BLOCK : n;
    for (i = b * EXPFAM_BLOCK; i < stop - 1 && left >= w[i]; i++) left -= w[i];
    /* rounding may lead past the last positive weight: step back to it */
    while (i > 0 && w[i] == 0.0) i--;
    if (w[i] == 0.0) while (i < n - 1 && w[i] == 0.0) i++;
    return i;
}
#endif

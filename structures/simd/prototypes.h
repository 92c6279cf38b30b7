/* Scores of prototypes with their bias, and the selection of all that exceed a bound. Instances: baseline, AVX2,
 * AVX-512; all give bitwise the same results.
 */
#ifndef EXPFAM_PROTOTYPES_H
#define EXPFAM_PROTOTYPES_H
#include "dispatch.h"

/* x += bias; write the largest of each 16 entries to `tops`; return the largest of all. */
#define EXPFAM_BIASED_TOPS(NAME, TARGET)                                                                    \
    TARGET static float NAME(float *x, const float *bias, float *tops, ptrdiff_t n) {                       \
        float best = -INFINITY;                                                                             \
        ptrdiff_t k = 0, b = 0;                                                                             \
        for (; k + 16 <= n; k += 16, b++) {                                                                 \
            float lanes[16];                                                                                \
            EXPFAM_SIMD                                                                                     \
            for (int j = 0; j < 16; j++) lanes[j] = x[k + j] += bias[k + j];                                \
            EXPFAM_SIMD                                                                                     \
            for (int j = 0; j < 8; j++) lanes[j] = lanes[j] > lanes[j + 8] ? lanes[j] : lanes[j + 8];       \
            EXPFAM_SIMD                                                                                     \
            for (int j = 0; j < 4; j++) lanes[j] = lanes[j] > lanes[j + 4] ? lanes[j] : lanes[j + 4];       \
            lanes[0] = lanes[0] > lanes[2] ? lanes[0] : lanes[2];                                           \
            lanes[1] = lanes[1] > lanes[3] ? lanes[1] : lanes[3];                                           \
            tops[b] = lanes[0] > lanes[1] ? lanes[0] : lanes[1];                                            \
            best = tops[b] > best ? tops[b] : best;                                                         \
        }                                                                                                   \
        if (k < n) {                                                                                        \
            tops[b] = -INFINITY;                                                                            \
            for (; k < n; k++) {                                                                            \
                x[k] += bias[k];                                                                            \
                tops[b] = x[k] > tops[b] ? x[k] : tops[b];                                                  \
            }                                                                                               \
            best = tops[b] > best ? tops[b] : best;                                                         \
        }                                                                                                   \
        return best;                                                                                        \
    }
EXPFAM_INSTANCES(EXPFAM_BIASED_TOPS, float, expfam_biased_tops, (float *, const float *, float *, ptrdiff_t))

/* Collect the entries above `least` with their positions, by the tops of expfam_biased_tops; needs room for 16 more. */
EXPFAM_UNUSED static ptrdiff_t expfam_above(const float *x, const float *tops, float least, ptrdiff_t n,
                                            float *values, uint32_t *places) {
    ptrdiff_t found = 0, n_blocks = (n + 15) / 16;
    for (ptrdiff_t b = 0; b < n_blocks; b++) {
        if (tops[b] > least) {
            const ptrdiff_t stop = 16 * b + 16 < n ? 16 * b + 16 : n;
            for (ptrdiff_t k = 16 * b; k < stop; k++) { /* written always, kept sometimes: no branch to mispredict */
                values[found] = x[k];
                places[found] = (uint32_t)k;
                found += x[k] > least;
            }
        }
    }
    return found;
}
#endif

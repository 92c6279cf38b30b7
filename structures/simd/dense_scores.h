/* Scores of one datum in all clusters, in single precision: softmax weights of the clusters near the maximum, a draw
 * from them, and sums of weighted data. Instances: baseline, AVX2, AVX-512.
 *
 * Rows of scores are `n` wide, a multiple of 16; blocks are of EXPFAM_BLOCK entries, the last may be shorter.
 */
#ifndef EXPFAM_DENSE_SCORES_H
#define EXPFAM_DENSE_SCORES_H
#include "blocks.h"
#include "dispatch.h"

/* out = (x - centre) * scale; return a bound of |<x - centre, theta>| from the largest |theta_j| in `reach`. */
#define EXPFAM_NARROW(NAME, TARGET)                                                                         \
    TARGET static double NAME(const double *x, const double *centre, const double *scale, const double *reach, \
                              float *out, ptrdiff_t n) {                                                    \
        double bound = 0.0;                                                                                 \
        EXPFAM_SIMD_SUM(bound)                                                                              \
        for (ptrdiff_t j = 0; j < n; j++) {                                                                 \
            const double gap = x[j] - centre[j];                                                            \
            out[j] = (float)(gap * scale[j]);                                                               \
            bound += fabs(gap) * reach[j];                                                                  \
        }                                                                                                   \
        return bound;                                                                                       \
    }
EXPFAM_INSTANCES(EXPFAM_NARROW, double, expfam_narrow,
                 (const double *, const double *, const double *, const double *, float *, ptrdiff_t))

/* Write the largest entry of each block to `tops`; return the largest of all. */
#define EXPFAM_TOPS(NAME, TARGET)                                                                           \
    TARGET static float NAME(const float *x, float *tops, ptrdiff_t n) {                                    \
        float best = -INFINITY, lanes[16];                                                                  \
        for (ptrdiff_t b = 0; b * EXPFAM_BLOCK < n; b++) {                                                  \
            const float *row = x + b * EXPFAM_BLOCK;                                                        \
            const ptrdiff_t m = n - b * EXPFAM_BLOCK < EXPFAM_BLOCK ? n - b * EXPFAM_BLOCK : EXPFAM_BLOCK;  \
            if (m == EXPFAM_BLOCK) {                                                                        \
                EXPFAM_SIMD                                                                                 \
                for (int j = 0; j < 16; j++) {                                                              \
                    const float a = row[j] > row[j + 16] ? row[j] : row[j + 16];                            \
                    const float c = row[j + 32] > row[j + 48] ? row[j + 32] : row[j + 48];                  \
                    lanes[j] = a > c ? a : c;                                                               \
                }                                                                                           \
            } else {                                                                                        \
                memcpy(lanes, row, sizeof lanes);                                                           \
                for (ptrdiff_t i = 16; i < m; i += 16)                                                      \
                    for (int j = 0; j < 16; j++) lanes[j] = row[i + j] > lanes[j] ? row[i + j] : lanes[j];  \
            }                                                                                               \
            EXPFAM_SIMD                                                                                     \
            for (int j = 0; j < 8; j++) lanes[j] = lanes[j] > lanes[j + 8] ? lanes[j] : lanes[j + 8];       \
            EXPFAM_SIMD                                                                                     \
            for (int j = 0; j < 4; j++) lanes[j] = lanes[j] > lanes[j + 4] ? lanes[j] : lanes[j + 4];       \
            lanes[0] = lanes[0] > lanes[2] ? lanes[0] : lanes[2];                                           \
            lanes[1] = lanes[1] > lanes[3] ? lanes[1] : lanes[3];                                           \
            tops[b] = lanes[0] > lanes[1] ? lanes[0] : lanes[1];                                            \
            best = tops[b] > best ? tops[b] : best;                                                         \
        }                                                                                                   \
        return best;                                                                                        \
    }
EXPFAM_INSTANCES(EXPFAM_TOPS, float, expfam_tops, (const float *, float *, ptrdiff_t))

/* x := exp(x - shift) in blocks whose largest entry is within `depth` of the shift, 0 where that is below e^-80. The
 * other blocks are not changed. The sums of blocks are in double, and 0 for the other blocks; the total is returned.
 * The exponential has a relative error of 8e-8, plus the rounding of its argument. The draw uses the weights written
 * here. */
#define EXPFAM_NEAR_WEIGHTS(NAME, TARGET)                                                                   \
    TARGET static double NAME(float *x, float shift, float depth, const float *tops, double *sums, ptrdiff_t n) { \
        const float low = shift - 80.0f; /* a variable: a constant bound becomes a branch */                \
        double total = 0.0;                                                                                 \
        for (ptrdiff_t b = 0; b * EXPFAM_BLOCK < n; b++) {                                                  \
            const ptrdiff_t m = n - b * EXPFAM_BLOCK < EXPFAM_BLOCK ? n - b * EXPFAM_BLOCK : EXPFAM_BLOCK;  \
            float *row = x + b * EXPFAM_BLOCK;                                                              \
            double sum = 0.0;                                                                               \
            sums[b] = 0.0;                                                                                  \
            if (tops[b] < shift - depth) continue;                                                          \
            EXPFAM_SIMD                                                                                     \
            for (ptrdiff_t i = 0; i < m; i++) {                                                             \
                const float u = ((row[i] < low ? low : row[i]) - shift) * 1.44269504f;                      \
                const float whole = u + 12582912.0f, f = u - (whole - 12582912.0f);                         \
                const float w = ((((1.32764713e-3f * f + 9.67554096e-3f) * f + 5.55071309e-2f) * f +        \
                                  2.40221202e-1f) * f + 6.93146944e-1f) * f + 1.00000012f; /* 2^f */        \
                uint32_t bits, steps;                                                                       \
                memcpy(&steps, &whole, 4);                                                                  \
                memcpy(&bits, &w, 4);                                                                       \
                bits += steps << 23; /* 12582912 = 0x4b400000 is 0 modulo 2^9 */                            \
                bits &= row[i] < low ? 0 : UINT32_C(0xffffffff);                                            \
                memcpy(row + i, &bits, 4);                                                                  \
            }                                                                                               \
            EXPFAM_SIMD_SUM(sum)                                                                            \
            for (ptrdiff_t i = 0; i < m; i++) sum += row[i];                                                \
            sums[b] = sum;                                                                                  \
            total += sum;                                                                                   \
        }                                                                                                   \
        return total;                                                                                       \
    }
EXPFAM_INSTANCES(EXPFAM_NEAR_WEIGHTS, double, expfam_near_weights,
                 (float *, float, float, const float *, double *, ptrdiff_t))

/* Draw an index with the weights of expfam_near_weights by one uniform number in [0, 1): first a block, then in it. */
EXPFAM_UNUSED static ptrdiff_t expfam_near_pick(const float *w, const double *sums, double total, double uniform,
                                                ptrdiff_t n) {
    double left = uniform * total;
    const ptrdiff_t n_blocks = (n + EXPFAM_BLOCK - 1) / EXPFAM_BLOCK;
    ptrdiff_t b = 0, last = n_blocks - 1, i, stop;
    while (sums[last] == 0.0) last--; /* the block of the largest weight has a positive sum */
    while (b < last && left >= sums[b]) left -= sums[b++];
    while (sums[b] == 0.0) b++;
    stop = (b + 1) * EXPFAM_BLOCK < n ? (b + 1) * EXPFAM_BLOCK : n;
    for (i = b * EXPFAM_BLOCK; i < stop - 1 && left >= w[i]; i++) left -= w[i];
    /* rounding may lead past the last positive weight: step back to it */
    while (i > b * EXPFAM_BLOCK && w[i] == 0.0f) i--;
    while (w[i] == 0.0f) i++;
    return i;
}

/* Set the entries of blocks with sum 0 to 0, and multiply all others by `factor`. */
#define EXPFAM_NEAR_SCALE(NAME, TARGET)                                                                     \
    TARGET static void NAME(float *x, float factor, const double *sums, ptrdiff_t n) {                      \
        for (ptrdiff_t b = 0; b * EXPFAM_BLOCK < n; b++) {                                                  \
            const ptrdiff_t m = n - b * EXPFAM_BLOCK < EXPFAM_BLOCK ? n - b * EXPFAM_BLOCK : EXPFAM_BLOCK;  \
            float *row = x + b * EXPFAM_BLOCK;                                                              \
            if (sums[b] == 0.0) {                                                                           \
                memset(row, 0, m * sizeof *row);                                                            \
                continue;                                                                                   \
            }                                                                                               \
            EXPFAM_SIMD                                                                                     \
            for (ptrdiff_t i = 0; i < m; i++) row[i] *= factor;                                             \
        }                                                                                                   \
    }
EXPFAM_INSTANCES(EXPFAM_NEAR_SCALE, void, expfam_near_scale, (float *, float, const double *, ptrdiff_t))

/* Set entries below `least` to 0 in blocks with a positive sum. */
#define EXPFAM_NEAR_FLOOR(NAME, TARGET)                                                                     \
    TARGET static void NAME(float *x, float least, const double *sums, ptrdiff_t n) {                       \
        for (ptrdiff_t b = 0; b * EXPFAM_BLOCK < n; b++) {                                                  \
            const ptrdiff_t stop = n - b * EXPFAM_BLOCK < EXPFAM_BLOCK ? n : (b + 1) * EXPFAM_BLOCK;        \
            if (sums[b] == 0.0) continue;                                                                   \
            EXPFAM_SIMD                                                                                     \
            for (ptrdiff_t i = b * EXPFAM_BLOCK; i < stop; i++) x[i] = x[i] < least ? 0.0f : x[i];          \
        }                                                                                                   \
    }
EXPFAM_INSTANCES(EXPFAM_NEAR_FLOOR, void, expfam_near_floor, (float *, float, const double *, ptrdiff_t))

/* out += sum_r factors[r] rows[r] */
#define EXPFAM_ADD_SCALED(NAME, TARGET)                                                                     \
    TARGET static void NAME(float *out, const float *const *rows, const float *factors, ptrdiff_t n_rows,   \
                            ptrdiff_t n) {                                                                  \
        ptrdiff_t r = 0;                                                                                    \
        for (; r + 4 <= n_rows; r += 4) {                                                                   \
            const float *a = rows[r], *b = rows[r + 1], *c = rows[r + 2], *d = rows[r + 3];                 \
            const float fa = factors[r], fb = factors[r + 1], fc = factors[r + 2], fd = factors[r + 3];     \
            EXPFAM_SIMD                                                                                     \
            for (ptrdiff_t j = 0; j < n; j++) out[j] += (fa * a[j] + fb * b[j]) + (fc * c[j] + fd * d[j]);  \
        }                                                                                                   \
        for (; r < n_rows; r++) {                                                                           \
            const float *a = rows[r];                                                                       \
            const float fa = factors[r];                                                                    \
            EXPFAM_SIMD                                                                                     \
            for (ptrdiff_t j = 0; j < n; j++) out[j] += fa * a[j];                                          \
        }                                                                                                   \
    }
EXPFAM_INSTANCES(EXPFAM_ADD_SCALED, void, expfam_add_scaled,
                 (float *, const float *const *, const float *, ptrdiff_t, ptrdiff_t))

/* out += factor x in blocks with a positive sum. */
#define EXPFAM_ADD_NEAR(NAME, TARGET)                                                                       \
    TARGET static void NAME(double *out, const float *x, double factor, const double *sums, ptrdiff_t n) {  \
        for (ptrdiff_t b = 0; b * EXPFAM_BLOCK < n; b++) {                                                  \
            const ptrdiff_t stop = n - b * EXPFAM_BLOCK < EXPFAM_BLOCK ? n : (b + 1) * EXPFAM_BLOCK;        \
            if (sums[b] == 0.0) continue;                                                                   \
            EXPFAM_SIMD                                                                                     \
            for (ptrdiff_t i = b * EXPFAM_BLOCK; i < stop; i++) out[i] += factor * x[i];                    \
        }                                                                                                   \
    }
EXPFAM_INSTANCES(EXPFAM_ADD_NEAR, void, expfam_add_near, (double *, const float *, double, const double *, ptrdiff_t))

/* out[places[j]] += factor * weights[j]: the terms of expfam_add_near that are not 0, with the same rounding. */
#define EXPFAM_ADD_LISTED(NAME, TARGET)                                                                     \
    TARGET static void NAME(double *out, const int32_t *places, const double *weights, double factor, ptrdiff_t n) { \
        for (ptrdiff_t j = 0; j < n; j++) out[places[j]] += factor * weights[j];                            \
    }
EXPFAM_INSTANCES(EXPFAM_ADD_LISTED, void, expfam_add_listed,
                 (double *, const int32_t *, const double *, double, ptrdiff_t))

/* Write the places of the numbers above `least`, whose number is returned; one place more is written. n is a multiple
 * of 16. */
#define EXPFAM_PLACES_ABOVE(NAME, TARGET)                                                                   \
    TARGET static ptrdiff_t NAME(const float *x, float least, ptrdiff_t n, int32_t *places) {               \
        ptrdiff_t found = 0;                                                                                \
        for (ptrdiff_t first = 0; first < n; first += 16) {                                                 \
            int above = 0;                                                                                  \
            EXPFAM_SIMD_SUM(above)                                                                          \
            for (ptrdiff_t k = first; k < first + 16; k++) above += x[k] > least;                           \
            if (!above) continue;                                                                           \
            for (ptrdiff_t k = first; k < first + 16; k++) {                                                \
                places[found] = (int32_t)k;                                                                 \
                found += x[k] > least;                                                                      \
            }                                                                                               \
        }                                                                                                   \
        return found;                                                                                       \
    }
EXPFAM_INSTANCES(EXPFAM_PLACES_ABOVE, ptrdiff_t, expfam_places_above,
                 (const float *, float, ptrdiff_t, int32_t *))

/* x := x + bias + error, upper bounds of scores; return the largest of the lower bounds x + bias - error. The error is
 * row[0] lengths + row[1] errors + own, see byte_codes.pyx. */
#define EXPFAM_CODE_BOUNDS(NAME, TARGET)                                                                    \
    TARGET static float NAME(float *x, const float *bias, const float *lengths, const float *errors,        \
                             const float *own, const float *row, ptrdiff_t n) {                             \
        const float a = row[0], b = row[1];                                                                 \
        float low = -INFINITY;                                                                              \
        EXPFAM_SIMD_MAX(low)                                                                                \
        for (ptrdiff_t k = 0; k < n; k++) {                                                                 \
            const float error = a * lengths[k] + b * errors[k] + own[k], score = x[k] + bias[k];            \
            const float lower = score - error;                                                              \
            low = lower > low ? lower : low;                                                                \
            x[k] = score + error;                                                                           \
        }                                                                                                   \
        return low;                                                                                         \
    }
EXPFAM_INSTANCES(EXPFAM_CODE_BOUNDS, float, expfam_code_bounds,
                 (float *, const float *, const float *, const float *, const float *, const float *, ptrdiff_t))
#endif

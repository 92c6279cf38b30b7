/* One cluster beside blocks of sixteen others, in single precision: bounds that leave out most pairs before their scores
 * are computed in double. Instances: baseline, AVX2, AVX-512, each with vectors of its own width. Results can differ in
 * their last bits between instances; the callers allow for more.
 *
 * Row r of a block has one number of each of its sixteen clusters; row 0 has their numbers of data.
 */
#ifndef EXPFAM_PAIR_BOUNDS_H
#define EXPFAM_PAIR_BOUNDS_H
#include "dispatch.h"

#define EXPFAM_PAIR_LANES 16
#if defined(__GNUC__) || defined(__clang__)
#define EXPFAM_FLOATS(bytes) __attribute__((vector_size(bytes), aligned(4), may_alias))
typedef float expfam_float4 EXPFAM_FLOATS(16);
typedef float expfam_float8 EXPFAM_FLOATS(32);
typedef float expfam_float16 EXPFAM_FLOATS(64);
#else
typedef float expfam_float4, expfam_float8, expfam_float16;
#endif

/* BODY is a macro taking (name, target, vector type). */
#if EXPFAM_DISPATCH
#define EXPFAM_PAIR_INSTANCES(BODY, result, name, arguments)                                                \
    BODY(name##_base, , expfam_float4)                                                                      \
    BODY(name##_avx2, EXPFAM_AVX2, expfam_float8)                                                           \
    BODY(name##_avx512, EXPFAM_AVX512, expfam_float16)                                                      \
    EXPFAM_CALLED(result, name, arguments, expfam_isa)
#else
#define EXPFAM_PAIR_INSTANCES(BODY, result, name, arguments)                                                \
    BODY(name##_base, , expfam_float4) EXPFAM_UNUSED static result (*name) arguments = name##_base;
#endif

/* Divides numbers of at least 1 by their powers of two, lane by lane, and adds the exponents to `powers`. */
EXPFAM_INLINE void expfam_split_floats(float *lanes, float *powers, ptrdiff_t width) {
    EXPFAM_SIMD
    for (ptrdiff_t l = 0; l < width; l++) {
        int32_t bits;
        memcpy(&bits, lanes + l, 4);
        powers[l] += (float)((bits >> 23) - 127);
        bits = (bits & 0x007fffff) | 0x3f800000;
        memcpy(lanes + l, &bits, 4);
    }
}

/* A lower bound of the binary logarithm of x + 1 for x in [0, 1), at most 7e-6 below it. */
#define EXPFAM_LOG2_BELOW(x)                                                                                \
    (((((((x) * -0.025123203f + 0.119298235f) * (x) - 0.274623245f) * (x) + 0.455527097f) * (x) - 0.717557847f) * \
      (x) + 1.442475319f) * (x) - 1.9e-6f)

/* Writes a lower bound of the sum over columns of log2(1 + gain (spread + weight (mean - location)^2)), with
 * weight = strength size / (strength + size) / 2, for each cluster of the blocks [first, stop).
 *
 * Rows of a block: size; means of d columns; their spreads, 0 in blocks that are plain, whose sizes are all 1.
 * `pair` has location, gain and strength of the other cluster, and gain times weight for size 1, d each. Each column
 * adds less than 31. */
#define EXPFAM_RATE_LOGS(NAME, TARGET, VECTOR)                                                              \
    TARGET static void NAME(const float *blocks, const unsigned char *plain, ptrdiff_t first, ptrdiff_t stop,   \
                            ptrdiff_t d, const float *pair, float *out) {                                   \
        enum { WIDTH = sizeof(VECTOR) / sizeof(float) };                                                    \
        const float *gain = pair + d, *strength = pair + 2 * d, *alone = pair + 3 * d;                      \
        for (ptrdiff_t b = first; b < stop; b++) {                                                          \
            for (ptrdiff_t start = 0; start < EXPFAM_PAIR_LANES; start += WIDTH) {                          \
                const float *rows = blocks + b * (2 * d + 1) * EXPFAM_PAIR_LANES + start;                   \
                const float *mean = rows + EXPFAM_PAIR_LANES, *spread = mean + d * EXPFAM_PAIR_LANES;       \
                VECTOR size, t, product, weight, power;                                                     \
                float split[WIDTH], powers[WIDTH] = {0};                                                    \
                memcpy(&size, rows, sizeof size);                                                           \
                product = size * 0.0f + 1.0f;                                                               \
                weight = product;                                                                           \
                for (ptrdiff_t f = 0; f < d; f++) {                                                         \
                    memcpy(&t, mean + f * EXPFAM_PAIR_LANES, sizeof t);                                     \
                    t -= pair[f];                                                                           \
                    if (plain[b]) {                                                                         \
                        product *= t * t * alone[f] + 1.0f;                                                 \
                    } else {                                                                                \
                        VECTOR more;                                                                        \
                        memcpy(&more, spread + f * EXPFAM_PAIR_LANES, sizeof more);                         \
                        if (!f || strength[f] != strength[f - 1])                                           \
                            weight = 0.5f * strength[f] * size / (strength[f] + size);                      \
                        product *= (weight * (t * t) + more) * gain[f] + 1.0f;                              \
                    }                                                                                       \
                    if (f % 4 == 3 && f < d - 1) {                                                          \
                        memcpy(split, &product, sizeof product);                                            \
                        expfam_split_floats(split, powers, WIDTH);                                          \
                        memcpy(&product, split, sizeof product);                                            \
                    }                                                                                       \
                }                                                                                           \
                memcpy(split, &product, sizeof product);                                                    \
                expfam_split_floats(split, powers, WIDTH);                                                  \
                memcpy(&product, split, sizeof product);                                                    \
                memcpy(&power, powers, sizeof power);                                                       \
                product -= 1.0f;                                                                            \
                product = EXPFAM_LOG2_BELOW(product) + power;                                               \
                memcpy(out + (b - first) * EXPFAM_PAIR_LANES + start, &product, sizeof product);            \
            }                                                                                               \
        }                                                                                                   \
    }
EXPFAM_PAIR_INSTANCES(EXPFAM_RATE_LOGS, void, expfam_rate_logs,
                      (const float *, const unsigned char *, ptrdiff_t, ptrdiff_t, ptrdiff_t, const float *, float *))

/* Upper bounds are read in blocks of EXPFAM_TOP_BLOCK, of which the highest bound is kept: most blocks are passed over. */
#define EXPFAM_TOP_BLOCK 64

/* Writes unit weight (lost - kept square) for each cluster of the blocks [0, stop), and the highest of each
 * EXPFAM_TOP_BLOCK; the square is the sum over columns of (mean - x)^2, the weight n size / (n + size).
 * Rows of a block: size; means of d columns. */
#define EXPFAM_WARD_BOUNDS(NAME, TARGET, VECTOR)                                                            \
    TARGET static void NAME(const float *blocks, ptrdiff_t stop, ptrdiff_t d, const float *x, float n,      \
                            float lost, float kept, double unit, double *out, double *tops) {               \
        enum { WIDTH = sizeof(VECTOR) / sizeof(float) };                                                    \
        for (ptrdiff_t b = 0; b < stop; b++) {                                                              \
            double top = b * EXPFAM_PAIR_LANES % EXPFAM_TOP_BLOCK ? tops[b * EXPFAM_PAIR_LANES / EXPFAM_TOP_BLOCK]  \
                                                                  : -INFINITY;                              \
            for (ptrdiff_t start = 0; start < EXPFAM_PAIR_LANES; start += WIDTH) {                          \
                const float *rows = blocks + b * (d + 1) * EXPFAM_PAIR_LANES + start;                       \
                double *bound = out + b * EXPFAM_PAIR_LANES + start;                                        \
                float lane[WIDTH];                                                                          \
                VECTOR size, t, sum;                                                                        \
                memcpy(&size, rows, sizeof size);                                                           \
                sum = size * 0.0f;                                                                          \
                for (ptrdiff_t f = 0; f < d; f++) {                                                         \
                    memcpy(&t, rows + (f + 1) * EXPFAM_PAIR_LANES, sizeof t);                               \
                    t -= x[f];                                                                              \
                    sum += t * t;                                                                           \
                }                                                                                           \
                sum = n * size / (n + size) * (lost - kept * sum);                                          \
                memcpy(lane, &sum, sizeof sum);                                                             \
                EXPFAM_SIMD_MAX(top)                                                                        \
                for (ptrdiff_t l = 0; l < WIDTH; l++) {                                                     \
                    bound[l] = unit * lane[l];                                                              \
                    top = bound[l] > top ? bound[l] : top;                                                  \
                }                                                                                           \
            }                                                                                               \
            tops[b * EXPFAM_PAIR_LANES / EXPFAM_TOP_BLOCK] = top;                                           \
        }                                                                                                   \
    }
EXPFAM_PAIR_INSTANCES(EXPFAM_WARD_BOUNDS, void, expfam_ward_bounds,
                      (const float *, ptrdiff_t, ptrdiff_t, const float *, float, float, float, double, double *,
                       double *))

/* Writes offset + level[count] - (half + count / 2) (least + ln 2 logs) - weight for n clusters, upper bounds of scores
 * of which `logs` are lower bounds of what is multiplied, and the highest of each EXPFAM_TOP_BLOCK. The factor is a
 * little below ln 2. */
#define EXPFAM_UPPER_SCORES(NAME, TARGET)                                                                   \
    TARGET static void NAME(const float *logs, const int32_t *count, const double *weight, const double *level, \
                            double half, double least, double offset, ptrdiff_t n, double *out, double *tops) { \
        for (ptrdiff_t start = 0; start < n; start += EXPFAM_TOP_BLOCK) {                                   \
            ptrdiff_t stop = n - start < EXPFAM_TOP_BLOCK ? n : start + EXPFAM_TOP_BLOCK;                   \
            double top = -INFINITY, same = offset + level[count[start]], factor = half + 0.5 * count[start];    \
            int32_t others = 0;                                                                             \
            EXPFAM_SIMD_SUM(others)                                                                         \
            for (ptrdiff_t i = start; i < stop; i++) others += count[i] != count[start];                    \
            if (others) {                                                                                   \
                EXPFAM_SIMD_MAX(top)                                                                        \
                for (ptrdiff_t i = start; i < stop; i++) {                                                  \
                    double more = least + 0.6931465 * logs[i];                                              \
                    out[i] = (offset + level[count[i]] - (half + 0.5 * count[i]) * more) - weight[i];       \
                    top = out[i] > top ? out[i] : top;                                                      \
                }                                                                                           \
            } else {                                                                                        \
                EXPFAM_SIMD_MAX(top)                                                                        \
                for (ptrdiff_t i = start; i < stop; i++) {                                                  \
                    out[i] = (same - factor * (least + 0.6931465 * logs[i])) - weight[i];                   \
                    top = out[i] > top ? out[i] : top;                                                      \
                }                                                                                           \
            }                                                                                               \
            tops[start / EXPFAM_TOP_BLOCK] = top;                                                           \
        }                                                                                                   \
    }
EXPFAM_INSTANCES(EXPFAM_UPPER_SCORES, void, expfam_upper_scores,
                 (const float *, const int32_t *, const double *, const double *, double, double, double, ptrdiff_t,
                  double *, double *))
#endif

/* Scores of one datum in the clusters of diagonal and spherical Gaussians: log predictive densities, which are products
 * of Student t densities or one Student t density of all columns (conjugate normal-inverse-gamma model), or log densities
 * with a known variance. Blocks and instances: see gaussian_lanes.h.
 */
#ifndef EXPFAM_GAUSSIAN_DIAGONAL_H
#define EXPFAM_GAUSSIAN_DIAGONAL_H
#include "gaussian_lanes.h"

/* Rows of a block: constant, half, then location and weight of each column.
 * score = constant - half * sum_f log(1 + weight (x - location)^2), one logarithm for 8 columns. */
#define EXPFAM_T_SCAN(NAME, TARGET, VECTOR)                                                                 \
    TARGET static int NAME(const double *x, const double *block, ptrdiff_t d, ptrdiff_t count, double *out) { \
        enum { WIDTH = EXPFAM_WIDTH(VECTOR), STEP = EXPFAM_LANES / EXPFAM_WIDTH(VECTOR) };                  \
        VECTOR worst = *(const VECTOR *)block * 0.0;                                                        \
        for (ptrdiff_t start = 0; start < count; start += WIDTH) {                                          \
            const VECTOR *row = (const VECTOR *)(block + start / EXPFAM_LANES * EXPFAM_LANES * (2 + 2 * d) + \
                                                 start % EXPFAM_LANES);                                     \
            VECTOR constant = row[0], half = row[STEP], sum = row[0] * 0.0;                                 \
            row += 2 * STEP;                                                                                \
            for (ptrdiff_t f = 0; f < d; f += 8) {                                                          \
                ptrdiff_t stop = d - f < 8 ? d : f + 8;                                                     \
                VECTOR product = row[0] * 0.0 + 1.0;                                                        \
                for (ptrdiff_t g = f; g < stop; g++, row += 2 * STEP) {                                     \
                    VECTOR t = x[g] - row[0];                                                               \
                    product *= 1.0 + row[STEP] * t * t;                                                     \
                }                                                                                           \
                worst += product;                                                                           \
                EXPFAM_LOG_LANES(VECTOR, product);                                                          \
                sum += product;                                                                             \
            }                                                                                               \
            sum = constant - half * sum;                                                                    \
            expfam_store(out, start, count, &sum, WIDTH);                                                   \
        }                                                                                                   \
        return expfam_is_wild(&worst, WIDTH);                                                               \
    }
EXPFAM_LANE_INSTANCES(EXPFAM_T_SCAN, int, expfam_t_scan,
                      (const double *, const double *, ptrdiff_t, ptrdiff_t, double *))

/* Joint scores of n_new data in the `count` clusters of one block of expfam_t_scan, which hold n[l] data each. `mean` and
 * `spread` are the mean of the data and half the sum of their squares about it, by column. A column's posterior rate
 * grows by the factor 1 + weight (more spread + pull (mean - location)^2). `level` holds the terms without these. */
#define EXPFAM_T_JOINT(NAME, TARGET, VECTOR)                                                                \
    TARGET static int NAME(const double *mean, const double *spread, double n_new, const double *strength,  \
                           const double *block, const double *n, const double *level, ptrdiff_t d,          \
                           ptrdiff_t count, double *out) {                                                  \
        enum { WIDTH = EXPFAM_WIDTH(VECTOR), STEP = EXPFAM_LANES / EXPFAM_WIDTH(VECTOR) };                  \
        VECTOR worst = *(const VECTOR *)block * 0.0;                                                        \
        for (ptrdiff_t start = 0; start < count; start += WIDTH) {                                          \
            const VECTOR *row = (const VECTOR *)(block + start);                                            \
            VECTOR held = *(const VECTOR *)(n + start), more = held, pull = held, sum = held * 0.0;         \
            VECTOR half = row[STEP] + 0.5 * (n_new - 1.0), strong;                                          \
            row += 2 * STEP;                                                                                \
            for (ptrdiff_t f = 0; f < d; f += 8) {                                                          \
                ptrdiff_t stop = d - f < 8 ? d : f + 8;                                                     \
                VECTOR product = held * 0.0 + 1.0;                                                          \
                for (ptrdiff_t g = f; g < stop; g++, row += 2 * STEP) {                                     \
                    VECTOR t = mean[g] - row[0];                                                            \
                    if (!g || strength[g] != strength[g - 1]) {                                             \
                        strong = strength[g] + held;                                                        \
                        more = 2.0 + 2.0 / strong;                                                          \
                        pull = (strong + 1.0) * n_new / (strong + n_new);                                   \
                    }                                                                                       \
                    product *= 1.0 + row[STEP] * (more * spread[g] + pull * t * t);                         \
                }                                                                                           \
                worst += product;                                                                           \
                EXPFAM_LOG_LANES(VECTOR, product);                                                          \
                sum += product;                                                                             \
            }                                                                                               \
            sum = *(const VECTOR *)(level + start) - half * sum;                                            \
            expfam_store(out, start, count, &sum, WIDTH);                                                   \
        }                                                                                                   \
        return expfam_is_wild(&worst, WIDTH);                                                               \
    }
EXPFAM_LANE_INSTANCES(EXPFAM_T_JOINT, int, expfam_t_joint,
                      (const double *, const double *, double, const double *, const double *, const double *,
                       const double *, ptrdiff_t, ptrdiff_t, double *))

/* Sums of squares (x - location)^2 in four vectors of clusters, from `start` on, and the rows of their blocks, of which
 * HEAD come before the locations. Each sum has its own order; four at a time hide the latency of the multiply-add.
 * Vectors beyond `count` repeat the first one. */
#define EXPFAM_FOUR_SQUARES(VECTOR, HEAD)                                                                   \
    const VECTOR *rows[4];                                                                                  \
    VECTOR sums[4];                                                                                         \
    for (ptrdiff_t u = 0; u < 4; u++) {                                                                     \
        const ptrdiff_t first = start + u * WIDTH < count ? start + u * WIDTH : start;                      \
        rows[u] = (const VECTOR *)(block + first / EXPFAM_LANES * EXPFAM_LANES * (HEAD + d) + first % EXPFAM_LANES); \
    }                                                                                                       \
    {                                                                                                       \
        const VECTOR *row0 = rows[0] + HEAD * STEP, *row1 = rows[1] + HEAD * STEP;                          \
        const VECTOR *row2 = rows[2] + HEAD * STEP, *row3 = rows[3] + HEAD * STEP;                          \
        VECTOR a = rows[0][0] * 0.0, b = rows[1][0] * 0.0, c = rows[2][0] * 0.0, e = rows[3][0] * 0.0;      \
        for (ptrdiff_t f = 0; f < d; f++) {                                                                 \
            const VECTOR t0 = x[f] - row0[f * STEP], t1 = x[f] - row1[f * STEP];                            \
            const VECTOR t2 = x[f] - row2[f * STEP], t3 = x[f] - row3[f * STEP];                            \
            a += t0 * t0, b += t1 * t1, c += t2 * t2, e += t3 * t3;                                         \
        }                                                                                                   \
        sums[0] = a, sums[1] = b, sums[2] = c, sums[3] = e;                                                 \
    }

/* Rows of a block: constant, half inverse variance, then the location of each column.
 * score = constant + (offset - half * sum_f (x - location)^2). */
#define EXPFAM_SPHERE_SCAN(NAME, TARGET, VECTOR)                                                            \
    TARGET static int NAME(const double *x, double offset, const double *block, ptrdiff_t d, ptrdiff_t count, \
                           double *out) {                                                                   \
        enum { WIDTH = EXPFAM_WIDTH(VECTOR), STEP = EXPFAM_LANES / EXPFAM_WIDTH(VECTOR) };                  \
        VECTOR worst = *(const VECTOR *)block * 0.0;                                                        \
        for (ptrdiff_t start = 0; start < count; start += 4 * WIDTH) {                                      \
            EXPFAM_FOUR_SQUARES(VECTOR, 2)                                                                  \
            for (ptrdiff_t u = 0; u < 4 && start + u * WIDTH < count; u++) {                                \
                VECTOR sum = sums[u] * rows[u][STEP];                                                       \
                worst += sum;                                                                               \
                sum = rows[u][0] + (offset - sum);                                                          \
                expfam_store(out, start + u * WIDTH, count, &sum, WIDTH);                                   \
            }                                                                                               \
        }                                                                                                   \
        return expfam_is_wild(&worst, WIDTH) || !(offset < EXPFAM_HUGE);                                    \
    }
EXPFAM_LANE_INSTANCES(EXPFAM_SPHERE_SCAN, int, expfam_sphere_scan,
                      (const double *, double, const double *, ptrdiff_t, ptrdiff_t, double *))

/* Rows of a block: constant, half, weight, then the location of each column.
 * score = constant - half * log(1 + weight * sum_f (x - location)^2). */
#define EXPFAM_RADIAL_SCAN(NAME, TARGET, VECTOR)                                                            \
    TARGET static int NAME(const double *x, const double *block, ptrdiff_t d, ptrdiff_t count, double *out) { \
        enum { WIDTH = EXPFAM_WIDTH(VECTOR), STEP = EXPFAM_LANES / EXPFAM_WIDTH(VECTOR) };                  \
        VECTOR worst = *(const VECTOR *)block * 0.0;                                                        \
        for (ptrdiff_t start = 0; start < count; start += 4 * WIDTH) {                                      \
            EXPFAM_FOUR_SQUARES(VECTOR, 3)                                                                  \
            for (ptrdiff_t u = 0; u < 4 && start + u * WIDTH < count; u++) {                                \
                VECTOR sum = 1.0 + rows[u][2 * STEP] * sums[u];                                             \
                worst += sum;                                                                               \
                EXPFAM_LOG_LANES(VECTOR, sum);                                                              \
                sum = rows[u][0] - rows[u][STEP] * sum;                                                     \
                expfam_store(out, start + u * WIDTH, count, &sum, WIDTH);                                   \
            }                                                                                               \
        }                                                                                                   \
        return expfam_is_wild(&worst, WIDTH);                                                               \
    }
EXPFAM_LANE_INSTANCES(EXPFAM_RADIAL_SCAN, int, expfam_radial_scan,
                      (const double *, const double *, ptrdiff_t, ptrdiff_t, double *))

/* Posterior rates of the statistics a + rows[l] with n[l] data, which are sums of x and of |x|^2. Each of the
 * EXPFAM_LANES statistics has a lane, so that its bits do not depend on the others. */
#define EXPFAM_MERGED_RADIAL(NAME, TARGET, VECTOR)                                                          \
    TARGET static void NAME(const double *a, const double *const *all, const double *n, const double *shift, \
                            double strength, double rate, ptrdiff_t d, double *out) {                       \
        enum { WIDTH = EXPFAM_WIDTH(VECTOR) };                                                              \
        for (ptrdiff_t start = 0; start < EXPFAM_LANES; start += WIDTH) {                                   \
            const double *const *rows = all + start;                                                        \
            VECTOR count = *(const VECTOR *)(n + start), zero = count * 0.0;                                \
            VECTOR squares = zero, cross = zero, second = zero;                                             \
            for (ptrdiff_t f = 0; f < d; f++) {                                                             \
                VECTOR first = zero, t;                                                                     \
                EXPFAM_PICK(first, rows, f);                                                                \
                first += a[f];                                                                              \
                t = first - count * shift[f];                                                               \
                squares += t * t;                                                                           \
                cross += shift[f] * (first + t);                                                            \
            }                                                                                               \
            EXPFAM_PICK(second, rows, d);                                                                   \
            second += a[d];                                                                                 \
            second = rate + 0.5 * (second - cross - squares / (strength + count));                          \
            memcpy(out + start, &second, sizeof second);                                                    \
        }                                                                                                   \
    }
EXPFAM_LANE_INSTANCES(EXPFAM_MERGED_RADIAL, void, expfam_merged_radial,
                      (const double *, const double *const *, const double *, const double *, double, double,
                       ptrdiff_t, double *))
#endif

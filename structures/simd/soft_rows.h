/* Weights of one row in all clusters in double precision, and sums of rows by these weights. Instances: baseline, AVX2,
 * AVX-512.
 *
 * Clusters are EXPFAM_LANES at a time: rows of numbers by cluster are `n` long, a multiple of that.
 */
#ifndef EXPFAM_SOFT_ROWS_H
#define EXPFAM_SOFT_ROWS_H
#include "dispatch.h"
#include "elementary.h"
#define EXPFAM_LANES 8

/* scores[k] = bias[k] + sum_f x[f] theta[f][k] */
#define EXPFAM_ROW_SCORES(NAME, TARGET)                                                                     \
    TARGET static void NAME(const double *x, ptrdiff_t d, const double *theta, const double *bias,          \
                            double *scores, ptrdiff_t n) {                                                  \
        for (ptrdiff_t k = 0; k < n; k += EXPFAM_LANES) {                                                   \
            double sums[EXPFAM_LANES] = {0.0};                                                              \
            for (ptrdiff_t f = 0; f < d; f++) {                                                             \
                const double *row = theta + f * n + k;                                                      \
                EXPFAM_SIMD                                                                                 \
                for (int j = 0; j < EXPFAM_LANES; j++) sums[j] += x[f] * row[j];                            \
            }                                                                                               \
            EXPFAM_SIMD                                                                                     \
            for (int j = 0; j < EXPFAM_LANES; j++) scores[k + j] = bias[k + j] + sums[j];                   \
        }                                                                                                   \
    }
EXPFAM_INSTANCES(EXPFAM_ROW_SCORES, void, expfam_row_scores,
                 (const double *, ptrdiff_t, const double *, const double *, double *, ptrdiff_t))

/* Write the first of the largest scores to `top`, and exp(score - largest) to `weights`, 0 from `depth` nats below;
 * return the sum of the weights: NaN where a score is NaN or +inf, or where all are -inf. */
#define EXPFAM_ROW_WEIGHTS(NAME, TARGET)                                                                    \
    TARGET static double NAME(const double *scores, double depth, double *weights, ptrdiff_t n,             \
                              ptrdiff_t *top) {                                                             \
        double lanes[EXPFAM_LANES], largest;                                                                \
        ptrdiff_t first = 0;                                                                                \
        memcpy(lanes, scores, sizeof lanes);                                                                \
        for (ptrdiff_t k = EXPFAM_LANES; k < n; k += EXPFAM_LANES) {                                        \
            EXPFAM_SIMD                                                                                     \
            for (int j = 0; j < EXPFAM_LANES; j++) lanes[j] = scores[k + j] > lanes[j] ? scores[k + j] : lanes[j]; \
        }                                                                                                   \
        largest = lanes[0];                                                                                 \
        for (int j = 1; j < EXPFAM_LANES; j++) largest = lanes[j] > largest ? lanes[j] : largest;           \
        for (ptrdiff_t k = n - 1; k >= 0; k--) first = scores[k] == largest ? k : first; /* no branch */    \
        *top = first;                                                                                       \
        memset(lanes, 0, sizeof lanes);                                                                     \
        for (ptrdiff_t k = 0; k < n; k += EXPFAM_LANES) {                                                   \
            EXPFAM_SIMD                                                                                     \
            for (int j = 0; j < EXPFAM_LANES; j++) {                                                        \
                const double below = scores[k + j] - largest, weight = expfam_exp1(below);                  \
                weights[k + j] = below <= -depth ? 0.0 : weight; /* a NaN stays a NaN */                    \
                lanes[j] += weights[k + j];                                                                 \
            }                                                                                               \
        }                                                                                                   \
        return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7])); \
    }
EXPFAM_INSTANCES(EXPFAM_ROW_WEIGHTS, double, expfam_row_weights,
                 (const double *, double, double *, ptrdiff_t, ptrdiff_t *))

/* For each of K clusters: n[k] += w, and S[k][f] += w x[f], where w = factor weights[k] is above 0. */
#define EXPFAM_ADD_WEIGHED(NAME, TARGET)                                                                    \
    TARGET static void NAME(const double *x, ptrdiff_t d, const double *weights, double factor,             \
                            ptrdiff_t K, double *n, double *S) {                                            \
        for (ptrdiff_t k = 0; k < K; k++) {                                                                 \
            const double w = factor * weights[k];                                                           \
            double *row = S + k * d;                                                                        \
            if (!(w > 0.0)) continue;                                                                       \
            n[k] += w;                                                                                      \
            EXPFAM_SIMD                                                                                     \
            for (ptrdiff_t f = 0; f < d; f++) row[f] += w * x[f];                                           \
        }                                                                                                   \
    }
EXPFAM_INSTANCES(EXPFAM_ADD_WEIGHED, void, expfam_add_weighed,
                 (const double *, ptrdiff_t, const double *, double, ptrdiff_t, double *, double *))
#endif

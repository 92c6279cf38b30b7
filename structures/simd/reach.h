/* Upper bounds of the scores of the members of m cells at a distance from their common centre: reaches of cells, see
 * cluster_tree/cells.pxd. Instances: baseline, AVX2, AVX-512.
 *
 * `reach` has six rows of length m: the smallest and the largest t of a member, 1 / curvature, curvature, smallest b
 * and excess. The rise of a cell is the largest value of min(distance t - least, distance t - curvature t^2 / 2 +
 * excess); the parabola has its maximum at distance / curvature or at an end. out[j] = min(base + rise, most),
 * mass[j] = out[j] + weight[j]. m is a multiple of EXPFAM_REACHES.
 */
#ifndef EXPFAM_REACH_H
#define EXPFAM_REACH_H
#include "dispatch.h"

#define EXPFAM_REACHES 8
#define EXPFAM_RISES(NAME, TARGET)                                                                          \
    TARGET static void NAME(const double *reach, const double *weight, ptrdiff_t m, double base, double distance, \
                            double most, double *out, double *mass) {                                       \
        const double *low = reach, *high = reach + m, *reciprocal = reach + 2 * m;                          \
        const double *curvature = reach + 3 * m, *least = reach + 4 * m, *excess = reach + 5 * m;           \
        EXPFAM_SIMD                                                                                         \
        for (ptrdiff_t j = 0; j < m; j++) {                                                                 \
            double t = distance * reciprocal[j];                                                            \
            t = t < low[j] ? low[j] : t;                                                                    \
            t = t > high[j] ? high[j] : t;                                                                  \
            const double linear = distance * high[j] - least[j];                                            \
            const double curved = distance * t - 0.5 * curvature[j] * t * t + excess[j];                    \
            const double bound = base + (curved < linear ? curved : linear);                                \
            out[j] = bound < most ? bound : most;                                                           \
            mass[j] = out[j] + weight[j];                                                                   \
        }                                                                                                   \
    }
EXPFAM_INSTANCES(EXPFAM_RISES, void, expfam_rises,
                 (const double *, const double *, ptrdiff_t, double, double, double, double *, double *))
#endif

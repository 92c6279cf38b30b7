/* Inner product of two vectors, and the sum of a vector and a multiple of another. Instances: baseline, AVX2, AVX-512.
 */
#ifndef EXPFAM_VECTORS_H
#define EXPFAM_VECTORS_H
#include "dispatch.h"

#define EXPFAM_DOT(NAME, TARGET)                                                                            \
    TARGET static double NAME(const double *a, const double *b, ptrdiff_t n) {                              \
        double sum = 0.0;                                                                                   \
        EXPFAM_SIMD_SUM(sum)                                                                                \
        for (ptrdiff_t i = 0; i < n; i++) sum += a[i] * b[i];                                               \
        return sum;                                                                                         \
    }
EXPFAM_INSTANCES(EXPFAM_DOT, double, expfam_dot, (const double *, const double *, ptrdiff_t))

/* out += factor * row; an entry -inf of the row makes the entry of out -inf for good */
#define EXPFAM_ADD_ROW(NAME, TARGET)                                                                        \
    TARGET static void NAME(double *out, const double *row, double factor, ptrdiff_t n) {                   \
        EXPFAM_SIMD                                                                                         \
        for (ptrdiff_t i = 0; i < n; i++) out[i] += factor * row[i];                                        \
    }
EXPFAM_INSTANCES(EXPFAM_ADD_ROW, void, expfam_add_row, (double *, const double *, double, ptrdiff_t))
#endif

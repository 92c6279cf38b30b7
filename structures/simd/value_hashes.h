/* Hashes of the cells of a row, for counting distinct values. Instances: baseline, AVX2, AVX-512; integers throughout,
 * so their results are the same.
 */
#ifndef EXPFAM_VALUE_HASHES_H
#define EXPFAM_VALUE_HASHES_H
#include "sign_codes.h"

/* hashes[j] = hash of the step of the grid, (row[j] - origin[j]) scale[j] rounded, in which the cell lies. Return whether
 * a hash is not above its limit. The hash of NaN is any number. */
#define EXPFAM_VALUE_HASHES(NAME, TARGET, REAL)                                                             \
    TARGET static int NAME(const REAL *row, ptrdiff_t n, const double *origin, const double *scale, const uint64_t *limit, \
                           uint64_t *hashes) {                                                              \
        uint64_t below = 0;                                                                                 \
        EXPFAM_PRAGMA(omp simd reduction(| : below))                                                        \
        for (ptrdiff_t j = 0; j < n; j++) {                                                                 \
            const double step = ((double)row[j] - origin[j]) * scale[j] + 0.5;                              \
            hashes[j] = expfam_mix64((uint64_t)(int64_t)(step == step ? step : 0.0));                       \
            below |= hashes[j] <= limit[j];                                                                 \
        }                                                                                                   \
        return below != 0;                                                                                  \
    }
#define EXPFAM_HASHES_FLOAT(NAME, TARGET) EXPFAM_VALUE_HASHES(NAME, TARGET, float)
#define EXPFAM_HASHES_DOUBLE(NAME, TARGET) EXPFAM_VALUE_HASHES(NAME, TARGET, double)
EXPFAM_INSTANCES(EXPFAM_HASHES_FLOAT, int, expfam_float_hashes,
                 (const float *, ptrdiff_t, const double *, const double *, const uint64_t *, uint64_t *))
EXPFAM_INSTANCES(EXPFAM_HASHES_DOUBLE, int, expfam_double_hashes,
                 (const double *, ptrdiff_t, const double *, const double *, const uint64_t *, uint64_t *))
#endif

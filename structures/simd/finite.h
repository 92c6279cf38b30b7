/* Whether all cells are finite. Instances: baseline, AVX2, AVX-512; their results are the same. */
#ifndef EXPFAM_FINITE_H
#define EXPFAM_FINITE_H
#include <float.h>

#include "dispatch.h"

/* Return whether no cell is infinite and, unless `may_miss`, none is NaN. */
#define EXPFAM_FINITE(NAME, TARGET, REAL, SIZE, MOST)                                                       \
    TARGET static int NAME(const REAL *cells, ptrdiff_t n, int may_miss) {                                  \
        int bad = 0;                                                                                        \
        if (may_miss) {                                                                                     \
            EXPFAM_PRAGMA(omp simd reduction(| : bad))                                                      \
            for (ptrdiff_t j = 0; j < n; j++) bad |= SIZE(cells[j]) > MOST;                                 \
        } else {                                                                                            \
            EXPFAM_PRAGMA(omp simd reduction(| : bad))                                                      \
            for (ptrdiff_t j = 0; j < n; j++) bad |= !(SIZE(cells[j]) <= MOST);                             \
        }                                                                                                   \
        return !bad;                                                                                        \
    }
#define EXPFAM_FINITE_FLOAT(NAME, TARGET) EXPFAM_FINITE(NAME, TARGET, float, fabsf, FLT_MAX)
#define EXPFAM_FINITE_DOUBLE(NAME, TARGET) EXPFAM_FINITE(NAME, TARGET, double, fabs, DBL_MAX)
EXPFAM_INSTANCES(EXPFAM_FINITE_FLOAT, int, expfam_finite_floats, (const float *, ptrdiff_t, int))
EXPFAM_INSTANCES(EXPFAM_FINITE_DOUBLE, int, expfam_finite_doubles, (const double *, ptrdiff_t, int))
#endif

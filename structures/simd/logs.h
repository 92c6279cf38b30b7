/* Logarithms and log rising factorials of all entries of a vector, by the functions of elementary.h. Instances:
 * baseline, AVX2, AVX-512.
 */
#ifndef EXPFAM_LOGS_H
#define EXPFAM_LOGS_H
#include "elementary.h"

#define EXPFAM_LOG(NAME, TARGET)                                                                            \
    TARGET static void NAME(const double *x, double *out, ptrdiff_t n) {                                    \
        EXPFAM_SIMD                                                                                         \
        for (ptrdiff_t i = 0; i < n; i++) out[i] = expfam_log1(x[i]);                                       \
    }
EXPFAM_INSTANCES(EXPFAM_LOG, void, expfam_log, (const double *, double *, ptrdiff_t))

#define EXPFAM_LOG_RISING(NAME, TARGET)                                                                     \
    TARGET static void NAME(const double *z, double m, int lift, double *out, ptrdiff_t n) {                \
        if (lift) {                                                                                         \
            EXPFAM_SIMD                                                                                     \
            for (ptrdiff_t i = 0; i < n; i++) out[i] = expfam_log_rising1(z[i], m, 16);                     \
        } else {                                                                                            \
            EXPFAM_SIMD                                                                                     \
            for (ptrdiff_t i = 0; i < n; i++) out[i] = expfam_log_rising1(z[i], m, 0);                      \
        }                                                                                                   \
    }
EXPFAM_INSTANCES(EXPFAM_LOG_RISING, void, expfam_log_rising, (const double *, double, int, double *, ptrdiff_t))
#endif

/* Weighted min-hash: improved consistent weighted sampling (Ioffe 2010). Instances: baseline, AVX2, AVX-512. */
#ifndef EXPFAM_MIN_HASH_H
#define EXPFAM_MIN_HASH_H
#include "dispatch.h"

/* Process one feature of weight exp(log_x) for n hashes: `draws` has r, b and log c of each (Ioffe 2010). For each hash
 * the smallest log a = log c - r (t - b + 1), its t = floor(log_x / r + b) and its feature are kept. */
#define EXPFAM_ICWS(NAME, TARGET)                                                                           \
    TARGET static void NAME(const double *draws, double log_x, double feature, double *best, double *level, \
                            double *winner, ptrdiff_t n) {                                                  \
        const double *r = draws, *b = draws + n, *log_c = draws + 2 * n;                                    \
        EXPFAM_SIMD                                                                                         \
        for (ptrdiff_t h = 0; h < n; h++) {                                                                 \
            double t = floor(log_x / r[h] + b[h]);                                                          \
            double a = log_c[h] - r[h] * (t - b[h] + 1.0), old = best[h], old_t = level[h], old_j = winner[h]; \
            best[h] = a < old ? a : old;                                                                    \
            level[h] = a < old ? t : old_t;                                                                 \
            winner[h] = a < old ? feature : old_j;                                                          \
        }                                                                                                   \
    }
EXPFAM_INSTANCES(EXPFAM_ICWS, void, expfam_icws,
                 (const double *, double, double, double *, double *, double *, ptrdiff_t))
#endif

/* Cholesky factor, second moments and posterior scale matrix of one Gaussian cluster with full covariance (conjugate
 * normal-inverse-Wishart model). Instances: baseline, AVX2, AVX-512.
 *
 * The lower triangle of the factor is stored by columns, each starting at the diagonal. This is also the order of the
 * upper triangle by rows, in which statistics are packed with off-diagonals times sqrt 2.
 */
#ifndef EXPFAM_CHOLESKY_H
#define EXPFAM_CHOLESKY_H
#include "dispatch.h"

/* Factorise in place; return 1 if a pivot is not positive. */
#define EXPFAM_CHOLESKY(NAME, TARGET)                                                                       \
    TARGET static int NAME(double *a, ptrdiff_t d) {                                                        \
        double *column = a;                                                                                 \
        for (ptrdiff_t j = 0; j < d; j++) {                                                                 \
            ptrdiff_t m = d - j;                                                                            \
            double pivot = column[0], inverse, *target = column + m;                                        \
            if (!(pivot > 0.0) || !(pivot < INFINITY)) return 1;                                            \
            pivot = sqrt(pivot);                                                                            \
            inverse = 1.0 / pivot;                                                                          \
            column[0] = pivot;                                                                              \
            EXPFAM_SIMD                                                                                     \
            for (ptrdiff_t i = 1; i < m; i++) column[i] *= inverse;                                         \
            for (ptrdiff_t k = 1; k < m; k++) {                                                             \
                double factor = column[k];                                                                  \
                const double *source = column + k;                                                          \
                EXPFAM_SIMD                                                                                 \
                for (ptrdiff_t i = 0; i < m - k; i++) target[i] -= source[i] * factor;                      \
                target += m - k;                                                                            \
            }                                                                                               \
            column += m;                                                                                    \
        }                                                                                                   \
        return 0;                                                                                           \
    }
EXPFAM_INSTANCES(EXPFAM_CHOLESKY, int, expfam_cholesky, (double *, ptrdiff_t))

/* out = S + sign svec(x x'). */
#define EXPFAM_SVEC_ADD(NAME, TARGET)                                                                       \
    TARGET static void NAME(const double *S, const double *x, double sign, double *out, ptrdiff_t d) {      \
        for (ptrdiff_t a = 0; a < d; a++) {                                                                 \
            double t = sign * 1.4142135623730951 * x[a];                                                    \
            EXPFAM_SIMD                                                                                     \
            for (ptrdiff_t b = 1; b < d - a; b++) out[b] = S[b] + t * x[a + b];                             \
            out[0] = S[0] + sign * x[a] * x[a];                                                             \
            S += d - a;                                                                                     \
            out += d - a;                                                                                   \
        }                                                                                                   \
    }
EXPFAM_INSTANCES(EXPFAM_SVEC_ADD, void, expfam_svec_add, (const double *, const double *, double, double *, ptrdiff_t))

/* Compute the posterior scale:
 * out = prior + unsvec(S) - shift first' - first shift' + n shift shift' - weight about about'. */
#define EXPFAM_SCALE(NAME, TARGET)                                                                          \
    TARGET static void NAME(const double *prior, const double *S, const double *first, const double *shift, double n, \
                            const double *about, double weight, double *out, ptrdiff_t d) {                 \
        for (ptrdiff_t a = 0; a < d; a++) {                                                                 \
            double u = weight * about[a], m = shift[a], t = n * shift[a] - first[a];                        \
            EXPFAM_SIMD                                                                                     \
            for (ptrdiff_t b = 0; b < d - a; b++)                                                           \
                out[b] = prior[b] + (S[b] * 0.70710678118654752 - m * first[a + b] + t * shift[a + b])      \
                         - u * about[a + b];                                                                \
            out[0] = prior[0] + (S[0] - m * first[a] + t * m) - u * about[a];                               \
            prior += d - a;                                                                                 \
            S += d - a;                                                                                     \
            out += d - a;                                                                                   \
        }                                                                                                   \
    }
EXPFAM_INSTANCES(EXPFAM_SCALE, void, expfam_scale,
                 (const double *, const double *, const double *, const double *, double, const double *, double,
                  double *, ptrdiff_t))
#endif

/* Modified Bessel functions of the first kind, on a log scale and divided by a power of the argument, and their ratios
 * of neighbouring orders. There is no overflow, and no branch by the argument, which may be 0.
 *
 * Debye's uniform expansion (Abramowitz and Stegun, 9.7.7) is taken at the order itself from 32 on. Lower orders v are
 * reached from order v + 32 by the recurrence I_{v-1} = (2 v / z) I_v + I_{v+1}, whose terms are all positive. Errors,
 * relative to max(1, |log I|), are below 1e-12; tests compare with 40 digits. Instances: baseline, AVX2, AVX-512.
 */
#ifndef EXPFAM_BESSEL_H
#define EXPFAM_BESSEL_H
#include "elementary.h"

#define EXPFAM_BESSEL_LIFT 32    /* the recurrence runs from so many orders above */
#define EXPFAM_BESSEL_HIGH 127.0 /* from this order on, four terms of the expansion are enough */

/* log(I_nu(z) / z^nu) = *root + *rest, from the square of z; `terms` is 4 or 6. The root sqrt(nu^2 + z^2) is kept apart
 * because differences of it need care. */
EXPFAM_INLINE void expfam_debye1(double nu, double square, int terms, double *root, double *rest) {
    double w = sqrt(nu * nu + square), p = 1.0 / w, t = nu * p * nu * p, sum, power = p * p, one;
    sum = p * ((3.0 - 5.0 * t) / 24.0);
    sum += power * ((81.0 + t * (-462.0 + t * 385.0)) / 1152.0);
    power *= p;
    sum += power * ((30375.0 + t * (-369603.0 + t * (765765.0 + t * -425425.0))) / 414720.0);
    power *= p;
    sum += power * ((4465125.0 + t * (-94121676.0 + t * (349922430.0 + t * (-446185740.0 + t * 185910725.0)))) /
                    39813120.0);
    if (terms == 6) {
        power *= p;
        sum += power * ((1519035525.0 + t * (-49286948607.0 + t * (284499769554.0 + t * (-614135872350.0 +
                         t * (566098157625.0 + t * -188699385875.0))))) / 6688604160.0);
        power *= p;
        sum += power * ((2757049477875.0 + t * (-127577298354750.0 + t * (1050760774457901.0 +
                         t * (-3369032068261860.0 + t * (5104696716244125.0 + t * (-3685299006138750.0 +
                         t * 1023694168371875.0)))))) / 4815794995200.0);
    }
    one = 1.0 + sum; /* its relative error is half an ulp, which is that of the logarithm */
    *root = w;
    *rest = -nu * expfam_log1(nu + w) - 0.5 * expfam_log1(6.283185307179586 * w / (one * one));
}

/* I_{nu+1}(z) / (z I_nu(z)) by the expansion at both orders, given root and rest at the lower one. */
EXPFAM_INLINE double expfam_bessel_step1(double nu, double square, double root, double rest) {
    double next, other;
    expfam_debye1(nu + 1.0, square, 6, &next, &other);
    return expfam_exp1((2.0 * nu + 1.0) / (next + root) + (other - rest));
}

/* log(I_nu(z) / z^nu) for 0 <= nu < 32; *step becomes I_{nu+1}(z) / (z I_nu(z)). */
EXPFAM_INLINE double expfam_low_bessel1(double nu, double square, double *step) {
    double v = nu + EXPFAM_BESSEL_LIFT, root, rest, rho, first = 1.0, second = 1.0, factor;
    expfam_debye1(v, square, 6, &root, &rest);
    rho = expfam_bessel_step1(v, square, root, rest);
    for (int t = 0; t < EXPFAM_BESSEL_LIFT / 2; t++) { /* two products, so that none overflows */
        factor = 2.0 * (v - t) + square * rho;
        first *= factor;
        rho = 1.0 / factor;
    }
    for (int t = EXPFAM_BESSEL_LIFT / 2; t < EXPFAM_BESSEL_LIFT; t++) {
        factor = 2.0 * (v - t) + square * rho;
        second *= factor;
        rho = 1.0 / factor;
    }
    *step = rho;
    return root + (rest + (expfam_log1(first) + expfam_log1(second)));
}

/* out = log(I_nu(z) / z^nu) of n numbers, given z^2 up to 1e30; out may be the same memory. */
#define EXPFAM_LOG_BESSEL(NAME, TARGET)                                                                     \
    TARGET static void NAME(double nu, const double *square, double *out, ptrdiff_t n) {                    \
        if (nu >= EXPFAM_BESSEL_HIGH) {                                                                     \
            EXPFAM_SIMD                                                                                     \
            for (ptrdiff_t i = 0; i < n; i++) {                                                             \
                double root, rest;                                                                          \
                expfam_debye1(nu, square[i], 4, &root, &rest);                                              \
                out[i] = root + rest;                                                                       \
            }                                                                                               \
        } else if (nu >= EXPFAM_BESSEL_LIFT) {                                                              \
            EXPFAM_SIMD                                                                                     \
            for (ptrdiff_t i = 0; i < n; i++) {                                                             \
                double root, rest;                                                                          \
                expfam_debye1(nu, square[i], 6, &root, &rest);                                              \
                out[i] = root + rest;                                                                       \
            }                                                                                               \
        } else {                                                                                            \
            EXPFAM_SIMD                                                                                     \
            for (ptrdiff_t i = 0; i < n; i++) {                                                             \
                double step;                                                                                \
                out[i] = expfam_low_bessel1(nu, square[i], &step);                                          \
            }                                                                                               \
        }                                                                                                   \
    }
EXPFAM_INSTANCES(EXPFAM_LOG_BESSEL, void, expfam_log_bessel, (double, const double *, double *, ptrdiff_t))

/* out = I_{nu+1}(z) / (z I_nu(z)) of n numbers, given z^2; at z = 0 it is 1 / (2 nu + 2). */
#define EXPFAM_BESSEL_RATIO(NAME, TARGET)                                                                   \
    TARGET static void NAME(double nu, const double *square, double *out, ptrdiff_t n) {                    \
        if (nu >= EXPFAM_BESSEL_LIFT) {                                                                     \
            EXPFAM_SIMD                                                                                     \
            for (ptrdiff_t i = 0; i < n; i++) {                                                             \
                double root, rest;                                                                          \
                expfam_debye1(nu, square[i], 6, &root, &rest);                                              \
                out[i] = expfam_bessel_step1(nu, square[i], root, rest);                                          \
            }                                                                                               \
        } else {                                                                                            \
            EXPFAM_SIMD                                                                                     \
            for (ptrdiff_t i = 0; i < n; i++) {                                                             \
                expfam_low_bessel1(nu, square[i], out + i);                                                 \
            }                                                                                               \
        }                                                                                                   \
    }
EXPFAM_INSTANCES(EXPFAM_BESSEL_RATIO, void, expfam_bessel_ratio, (double, const double *, double *, ptrdiff_t))
#endif

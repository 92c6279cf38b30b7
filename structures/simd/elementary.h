/* Logarithm, exponential and log rising factorial of one double, without calls, so that loops over them vectorise.
 * The logarithm is the one of FreeBSD's e_log.c (fdlibm); the exponential is a Taylor polynomial after reduction by
 * log 2; the log rising factorial uses Stirling's series. They are inlined into loops of all three instruction sets.
 */
#ifndef EXPFAM_ELEMENTARY_H
#define EXPFAM_ELEMENTARY_H
#include "dispatch.h"

/* Natural logarithm of a positive finite double, error below 1 ulp; there is no branch, so loops over it vectorise.
 * The mantissa is in [sqrt(1/2), sqrt(2)), then the odd series in s = f / (2 + f) is used. Zero and denormal numbers
 * are not handled: callers pass normal numbers only. */
EXPFAM_INLINE double expfam_log1(double x) {
    uint64_t bits, exponent;
    double f, s, z, r, half, e;
    memcpy(&bits, &x, 8);
    /* The exponent is unsigned and biased by 1024, and its bits are made a double: without AVX-512, vectors have
     * neither an arithmetic shift nor a conversion of 64-bit integers. */
    exponent = (bits - UINT64_C(0x3fe6a09e667f3bcd) + UINT64_C(0x4000000000000000)) >> 52;
    bits = bits - (exponent << 52) + UINT64_C(0x4000000000000000);
    exponent |= UINT64_C(0x4330000000000000);
    memcpy(&e, &exponent, 8);
    e -= 4503599627370496.0 + 1024.0;
    memcpy(&f, &bits, 8);
    f -= 1.0;
    s = f / (2.0 + f);
    z = s * s;
    r = z * (6.666666666666735130e-01 + z * (3.999999999940941908e-01 + z * (2.857142874366239149e-01 +
        z * (2.222219843214978396e-01 + z * (1.818357216161805012e-01 + z * (1.531383769920937332e-01 +
        z * 1.479819860511658591e-01))))));
    half = 0.5 * f * f;
    return e * 6.93147180369123816490e-01 - ((half - (s * (half + r) + e * 1.90821492927058770002e-10)) - f);
}

/* exp(x) for x <= 709, relative error below 6e-16; for x < -708 it returns the value at -708 (3e-308), for NaN a NaN. */
EXPFAM_INLINE double expfam_exp1(double x) {
    double shifted, n, r, p, scale;
    uint64_t bits;
    x = x < -708.0 ? -708.0 : x;
    shifted = x * 1.4426950408889634 + 6755399441055744.0; /* rounds to the nearest integer, in the last bits */
    n = shifted - 6755399441055744.0;
    r = x - n * 6.93147180369123816490e-01;
    r -= n * 1.90821492927058770002e-10;
    p = 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    memcpy(&bits, &shifted, 8); /* a conversion of n to an integer would be undefined for NaN */
    bits = (bits + 1023) << 52;
    memcpy(&scale, &bits, 8);
    return p * scale;
}

/* lgamma(z + m) - lgamma(z) for z > 0, m >= 0 without cancellation: Stirling's series of the difference, truncated with
 * an absolute error of 1 / (1188 z^9), 1.2e-14 at z = 16, plus a few ulp of m log z + m. With `shift` = 16 the
 * recurrence is used to raise smaller z. */
EXPFAM_INLINE double expfam_log_rising1(double z, double m, int shift) {
    double below = 1.0, above = 1.0, u, inv, inv_m, series, series_m;
    for (int t = 0; t < shift; t++) { /* two products and one division: 16 divisions would dominate the cost */
        below *= z + t;
        above *= z + m + t;
    }
    z += shift;
    u = m / z;
    inv = 1.0 / z;
    inv_m = 1.0 / (z + m);
    series = inv * (1.0 / 12 - inv * inv * (1.0 / 360 - inv * inv * (1.0 / 1260 - inv * inv * (1.0 / 1680))));
    series_m = inv_m * (1.0 / 12 - inv_m * inv_m * (1.0 / 360 - inv_m * inv_m * (1.0 / 1260 -
        inv_m * inv_m * (1.0 / 1680))));
    { /* log1p(u) = log(1 + u) + (u - ((1 + u) - 1)) / (1 + u) */
        double v = 1.0 + u, log1p_u = expfam_log1(v) + (u - (v - 1.0)) / v;
        double result = m * expfam_log1(z) + (z + m - 0.5) * log1p_u - m + (series_m - series);
        return shift ? result + expfam_log1(below / above) : result;
    }
}
#endif

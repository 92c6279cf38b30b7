"""Vectorised digammas and exponentials of variational topics."""

cdef extern from *:
    """
    #include "elementary.h"
    /* psi(x) for x > 0 to 1e-12: shift x by 6, then use the asymptotic series; divisions are joined in pairs. */
    EXPFAM_INLINE double topic_digamma(double x) {
        double low = (2 * x + 1) / (x * (x + 1)) + (2 * x + 5) / ((x + 2) * (x + 3));
        double y = x + 6, i = 1 / y, z = i * i;
        double series = 1. / 240 - z * (1. / 132 - z * (691. / 32760));
        low += (2 * x + 9) / ((x + 4) * (x + 5));
        series = z * (1. / 12 - z * (1. / 120 - z * (1. / 252 - z * series)));
        return expfam_log1(y) - 0.5 * i - series - low;
    }
    /* out = psi(a + n); returns the largest of them. */
    #define TOPIC_DIGAMMAS(NAME, TARGET)                                                                    \\
        TARGET static double NAME(const double *a, const double *n, double *out, ptrdiff_t size) {          \\
            double largest = -INFINITY;                                                                     \\
            EXPFAM_SIMD                                                                                     \\
            for (ptrdiff_t k = 0; k < size; k++) out[k] = topic_digamma(a[k] + n[k]);                       \\
            for (ptrdiff_t k = 0; k < size; k++) largest = out[k] > largest ? out[k] : largest;             \\
            return largest;                                                                                 \\
        }
    EXPFAM_INSTANCES(TOPIC_DIGAMMAS, double, topic_digammas, (const double *, const double *, double *, ptrdiff_t))

    /* logs -= shift, then out = exp(logs). Results below LEAST are set to 0: the product of two of them would be
     * denormal, and arithmetic with denormal numbers is many times slower. */
    #define TOPIC_EXPS(NAME, TARGET, TYPE, LEAST)                                                       \\
        TARGET static void NAME(double *logs, double shift, TYPE *out, ptrdiff_t size) {                \\
            EXPFAM_SIMD                                                                                 \\
            for (ptrdiff_t k = 0; k < size; k++) {                                                      \\
                double x;                                                                               \\
                logs[k] -= shift;                                                                       \\
                x = expfam_exp1(logs[k]);                                                               \\
                out[k] = (TYPE)(x < LEAST ? 0 : x);                                                     \\
            }                                                                                           \\
        }
    #define TOPIC_EXPS_F32(NAME, TARGET) TOPIC_EXPS(NAME, TARGET, float, 1e-19)
    #define TOPIC_EXPS_F64(NAME, TARGET) TOPIC_EXPS(NAME, TARGET, double, 1e-150)
    EXPFAM_INSTANCES(TOPIC_EXPS_F32, void, topic_exps_f32, (double *, double, float *, ptrdiff_t))
    EXPFAM_INSTANCES(TOPIC_EXPS_F64, void, topic_exps_f64, (double *, double, double *, ptrdiff_t))
    """
    double topic_digamma(double x) noexcept nogil
    double (*topic_digammas)(const double *a, const double *n, double *out, Py_ssize_t size) noexcept nogil
    void (*topic_exps_f32)(double *logs, double shift, float *out, Py_ssize_t size) noexcept nogil
    void (*topic_exps_f64)(double *logs, double shift, double *out, Py_ssize_t size) noexcept nogil

/* Inner loops in one instance for each instruction set, picked once when a module is loaded.
 * EXPFAM_ISA=base|avx2|avx512 forces one (tests run them all on one machine). Wheels are built with baseline flags;
 * only the bodies below are compiled for more. Float results differ between instances in their last bits
 * (fused multiply-add, order of sums); integer results never. Everything is static: each module owns its copy.
 */
#ifndef EXPFAM_KERNELS_H
#define EXPFAM_KERNELS_H
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if (defined(__GNUC__) || defined(__clang__)) && defined(__x86_64__)
#define EXPFAM_DISPATCH 1
#define EXPFAM_AVX2 __attribute__((target("avx2,fma")))
#define EXPFAM_AVX512 __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,avx2,fma,prefer-vector-width=512")))
#else
#define EXPFAM_DISPATCH 0
#endif
#if defined(__GNUC__) || defined(__clang__)
#define EXPFAM_INLINE static inline __attribute__((always_inline))
#define EXPFAM_UNUSED __attribute__((unused))
#define EXPFAM_SIMD _Pragma("omp simd")
#define EXPFAM_SIMD_SUM(variable) EXPFAM_PRAGMA(omp simd reduction(+ : variable))
#define EXPFAM_SIMD_MAX(variable) EXPFAM_PRAGMA(omp simd reduction(max : variable))
#define EXPFAM_PRAGMA(text) _Pragma(#text)
#else
#define EXPFAM_INLINE static __forceinline
#define EXPFAM_UNUSED
#define EXPFAM_SIMD
#define EXPFAM_SIMD_SUM(variable)
#define EXPFAM_SIMD_MAX(variable)
#endif

/* One body, three instances and the pointer that is called. BODY is a macro taking (name, target). */
#if EXPFAM_DISPATCH
#define EXPFAM_INSTANCES(BODY, result, name, arguments)                                                    \
    BODY(name##_base, ) BODY(name##_avx2, EXPFAM_AVX2) BODY(name##_avx512, EXPFAM_AVX512)                   \
    EXPFAM_UNUSED static result (*name) arguments = name##_base;                                            \
    __attribute__((constructor)) static void name##_pick(void) {                                            \
        int level = expfam_isa();                                                                           \
        name = level == 2 ? name##_avx512 : level == 1 ? name##_avx2 : name##_base;                         \
    }
#else
#define EXPFAM_INSTANCES(BODY, result, name, arguments)                                                    \
    BODY(name##_base, ) EXPFAM_UNUSED static result (*name) arguments = name##_base;
#endif

/* 0 base, 1 AVX2, 2 AVX-512; what the machine has, lowered by EXPFAM_ISA. */
EXPFAM_UNUSED static int expfam_isa(void) {
#if EXPFAM_DISPATCH
    int level = 0;
    const char *forced = getenv("EXPFAM_ISA");
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) level = 1;
    if (level && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw")) level = 2;
    if (forced && !strcmp(forced, "base")) level = 0;
    if (forced && !strcmp(forced, "avx2") && level > 1) level = 1;
    return level;
#else
    return 0;
#endif
}

/* Natural logarithm of a positive finite double, below 1 ulp; branch-free so that loops over it vectorise.
 * Mantissa in [sqrt(1/2), sqrt(2)), then the classical odd series in s = f / (2 + f). Zero and denormals are not
 * handled: callers keep arguments normal. */
EXPFAM_INLINE double expfam_log1(double x) {
    uint64_t bits, exponent;
    double f, s, z, r, half, e;
    memcpy(&bits, &x, 8);
    /* Unsigned and biased by 1024, and made a double by its bits: below AVX-512 vectors have neither an arithmetic
     * shift nor a conversion of 64-bit integers. */
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

/* exp(x) for x <= 709, relative error below 2e-16 x 3; below -708 it returns the value at -708 (3e-308). */
EXPFAM_INLINE double expfam_exp1(double x) {
    double n, r, p, scale;
    int64_t bits;
    x = x < -708.0 ? -708.0 : x;
    n = (x * 1.4426950408889634 + 6755399441055744.0) - 6755399441055744.0; /* round to nearest */
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
    bits = ((int64_t)n + 1023) << 52;
    memcpy(&scale, &bits, 8);
    return p * scale;
}

/* lgamma(z + m) - lgamma(z) for z > 0, m >= 0, without the cancellation of the two: Stirling's series of the
 * difference, cut at an absolute error of 1 / (1188 z^9), 1.2e-14 at z = 16, beside a few ulp of m log z + m;
 * `shift` = 16 lifts smaller z by the recurrence. */
EXPFAM_INLINE double expfam_log_rising1(double z, double m, int shift) {
    double below = 1.0, above = 1.0, u, inv, inv_m, series, series_m;
    for (int t = 0; t < shift; t++) { /* two products and one division: 16 divisions would be most of the cost */
        below *= z + t;
        above *= z + m + t;
    }
    z += shift;
    u = m / z;
    inv = 1.0 / z;
    inv_m = 1.0 / (z + m);
    series = inv * (1.0 / 12 - inv * inv * (1.0 / 360 - inv * inv * (1.0 / 1260 - inv * inv * (1.0 / 1680))));
    series_m = inv_m * (1.0 / 12 - inv_m * inv_m * (1.0 / 360 - inv_m * inv_m * (1.0 / 1260 - inv_m * inv_m * (1.0 / 1680))));
    { /* log1p(u) = log(1 + u) + (u - ((1 + u) - 1)) / (1 + u) */
        double v = 1.0 + u, log1p_u = expfam_log1(v) + (u - (v - 1.0)) / v;
        double result = m * expfam_log1(z) + (z + m - 0.5) * log1p_u - m + (series_m - series);
        return shift ? result + expfam_log1(below / above) : result;
    }
}

#define EXPFAM_DOT(NAME, TARGET)                                                                            \
    TARGET static double NAME(const double *a, const double *b, ptrdiff_t n) {                             \
        double sum = 0.0;                                                                                   \
        EXPFAM_SIMD_SUM(sum)                                                                                \
        for (ptrdiff_t i = 0; i < n; i++) sum += a[i] * b[i];                                               \
        return sum;                                                                                         \
    }
EXPFAM_INSTANCES(EXPFAM_DOT, double, expfam_dot, (const double *, const double *, ptrdiff_t))

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

/* out += factor * row; a row of -inf masks entries for good */
#define EXPFAM_ADD_ROW(NAME, TARGET)                                                                        \
    TARGET static void NAME(double *out, const double *row, double factor, ptrdiff_t n) {                   \
        EXPFAM_SIMD                                                                                         \
        for (ptrdiff_t i = 0; i < n; i++) out[i] += factor * row[i];                                        \
    }
EXPFAM_INSTANCES(EXPFAM_ADD_ROW, void, expfam_add_row, (double *, const double *, double, ptrdiff_t))

#define EXPFAM_MAX(NAME, TARGET)                                                                            \
    TARGET static double NAME(const double *x, ptrdiff_t n) {                                               \
        double best = -INFINITY;                                                                            \
        EXPFAM_SIMD_MAX(best)                                                                               \
        for (ptrdiff_t i = 0; i < n; i++) best = x[i] > best ? x[i] : best;                                 \
        return best;                                                                                        \
    }
EXPFAM_INSTANCES(EXPFAM_MAX, double, expfam_max, (const double *, ptrdiff_t))

/* x := exp(x - shift), with exact zeros 700 nats below the shift (so -inf is 0); sums of each 64 into `sums`; returns the total.
 * The weights and sums written here are the law of the draw that follows. */
#define EXPFAM_BLOCK 64
#define EXPFAM_EXP_BLOCKS(NAME, TARGET)                                                                     \
    TARGET static double NAME(double *x, double shift, double *sums, ptrdiff_t n) {                         \
        double total = 0.0;                                                                                 \
        for (ptrdiff_t b = 0; b * EXPFAM_BLOCK < n; b++) {                                                  \
            double sum = 0.0, *row = x + b * EXPFAM_BLOCK;                                                  \
            ptrdiff_t m = n - b * EXPFAM_BLOCK < EXPFAM_BLOCK ? n - b * EXPFAM_BLOCK : EXPFAM_BLOCK;        \
            EXPFAM_SIMD_SUM(sum)                                                                            \
            for (ptrdiff_t i = 0; i < m; i++) {                                                             \
                double t = row[i] - shift, w = expfam_exp1(t);                                              \
                w = t <= -700.0 ? 0.0 : w; /* a NaN stays one, and the total tells */                        \
                row[i] = w;                                                                                 \
                sum += w;                                                                                   \
            }                                                                                               \
            sums[b] = sum;                                                                                  \
            total += sum;                                                                                   \
        }                                                                                                   \
        return total;                                                                                       \
    }
EXPFAM_INSTANCES(EXPFAM_EXP_BLOCKS, double, expfam_exp_blocks, (double *, double, double *, ptrdiff_t))

/* Index drawn with the weights of expfam_exp_blocks by one uniform in [0, 1): a block first, then inside it. */
EXPFAM_UNUSED static ptrdiff_t expfam_pick(const double *w, const double *sums, double total, double uniform, ptrdiff_t n) {
    double left = uniform * total;
    ptrdiff_t b = 0, last = (n - 1) / EXPFAM_BLOCK, i, stop;
    while (b < last && left >= sums[b]) left -= sums[b++];
    stop = (b + 1) * EXPFAM_BLOCK < n ? (b + 1) * EXPFAM_BLOCK : n;
    for (i = b * EXPFAM_BLOCK; i < stop - 1 && left >= w[i]; i++) left -= w[i];
    /* rounding may run past the last positive weight: step back to it */
    while (i > 0 && w[i] == 0.0) i--;
    if (w[i] == 0.0) while (i < n - 1 && w[i] == 0.0) i++;
    return i;
}

/* ---- count tables: products of (count + pseudo-count) over the rows of a word-major table ------------------------
 * A row holds the counts of one word in all clusters, one for each slot, padded to EXPFAM_LINE entries and aligned to
 * 64 bytes. The logarithm of a product of up to 32 factors replaces 32 logarithms; the caller bounds the number of
 * factors so that products stay normal. Rows of a table are far apart in memory and end before the hardware prefetcher
 * has warmed up: the next four rows are asked for while four are read. */
#define EXPFAM_LINE 16
#if defined(__GNUC__) || defined(__clang__)
#define EXPFAM_PREFETCH(address) __builtin_prefetch(address)
#else
#define EXPFAM_PREFETCH(address) ((void)(address))
#endif

/* p[j] *= prod_t (rows[t][j] + a[t]) for j < n, n a multiple of EXPFAM_LINE. */
#define EXPFAM_COUNT_PRODUCTS(NAME, TARGET, TYPE)                                                           \
    TARGET static void NAME(const TYPE *const *rows, const double *a, ptrdiff_t n_rows, double *p, ptrdiff_t n) { \
        ptrdiff_t t = 0;                                                                                    \
        for (; t + 4 <= n_rows; t += 4) {                                                                   \
            const TYPE *r0 = rows[t], *r1 = rows[t + 1], *r2 = rows[t + 2], *r3 = rows[t + 3];              \
            const TYPE *q0 = t + 4 < n_rows ? rows[t + 4] : r0, *q1 = t + 5 < n_rows ? rows[t + 5] : r1;    \
            const TYPE *q2 = t + 6 < n_rows ? rows[t + 6] : r2, *q3 = t + 7 < n_rows ? rows[t + 7] : r3;    \
            double a0 = a[t], a1 = a[t + 1], a2 = a[t + 2], a3 = a[t + 3];                                  \
            for (ptrdiff_t b = 0; b < n; b += EXPFAM_LINE) {                                                \
                EXPFAM_PREFETCH(q0 + b);                                                                    \
                EXPFAM_PREFETCH(q1 + b);                                                                    \
                EXPFAM_PREFETCH(q2 + b);                                                                    \
                EXPFAM_PREFETCH(q3 + b);                                                                    \
                EXPFAM_SIMD                                                                                 \
                for (ptrdiff_t j = b; j < b + EXPFAM_LINE; j++)                                             \
                    p[j] *= (((double)r0[j] + a0) * ((double)r1[j] + a1)) * (((double)r2[j] + a2) * ((double)r3[j] + a3)); \
            }                                                                                               \
        }                                                                                                   \
        if (t + 2 <= n_rows) {                                                                              \
            const TYPE *r0 = rows[t], *r1 = rows[t + 1];                                                    \
            double a0 = a[t], a1 = a[t + 1];                                                                \
            EXPFAM_SIMD                                                                                     \
            for (ptrdiff_t j = 0; j < n; j++) p[j] *= ((double)r0[j] + a0) * ((double)r1[j] + a1);          \
            t += 2;                                                                                         \
        }                                                                                                   \
        if (t < n_rows) {                                                                                   \
            const TYPE *r0 = rows[t];                                                                       \
            double a0 = a[t];                                                                               \
            EXPFAM_SIMD                                                                                     \
            for (ptrdiff_t j = 0; j < n; j++) p[j] *= (double)r0[j] + a0;                                   \
        }                                                                                                   \
    }
#define EXPFAM_COUNT_PRODUCTS_INT(NAME, TARGET) EXPFAM_COUNT_PRODUCTS(NAME, TARGET, int32_t)
#define EXPFAM_COUNT_PRODUCTS_REAL(NAME, TARGET) EXPFAM_COUNT_PRODUCTS(NAME, TARGET, double)
EXPFAM_INSTANCES(EXPFAM_COUNT_PRODUCTS_INT, void, expfam_count_products_int,
                 (const int32_t *const *, const double *, ptrdiff_t, double *, ptrdiff_t))
EXPFAM_INSTANCES(EXPFAM_COUNT_PRODUCTS_REAL, void, expfam_count_products_real,
                 (const double *const *, const double *, ptrdiff_t, double *, ptrdiff_t))

/* p[j] = prod_{t < m} (z[j] + t) for j < n, n a multiple of EXPFAM_LINE: four factors at a time from y (y + 3) = u and
 * (y + 1) (y + 2) = u + 2, all terms positive. */
#define EXPFAM_RISING_PRODUCTS(NAME, TARGET)                                                                \
    TARGET static void NAME(const double *z, ptrdiff_t m, double *p, ptrdiff_t n) {                         \
        ptrdiff_t t = 0;                                                                                    \
        EXPFAM_SIMD                                                                                         \
        for (ptrdiff_t j = 0; j < n; j++) p[j] = 1.0;                                                       \
        for (; t + 4 <= m; t += 4) {                                                                        \
            double shift = (double)t;                                                                       \
            EXPFAM_SIMD                                                                                     \
            for (ptrdiff_t j = 0; j < n; j++) {                                                             \
                double y = z[j] + shift, u = y * (y + 3.0);                                                 \
                p[j] *= u * (u + 2.0);                                                                      \
            }                                                                                               \
        }                                                                                                   \
        for (; t < m; t++) {                                                                                \
            double shift = (double)t;                                                                       \
            EXPFAM_SIMD                                                                                     \
            for (ptrdiff_t j = 0; j < n; j++) p[j] *= z[j] + shift;                                         \
        }                                                                                                   \
    }
EXPFAM_INSTANCES(EXPFAM_RISING_PRODUCTS, void, expfam_rising_products, (const double *, ptrdiff_t, double *, ptrdiff_t))

/* out[j] += log(p[j] / q[j]), or log(p[j]) where q is NULL. */
#define EXPFAM_ADD_LOG_RATIO(NAME, TARGET)                                                                  \
    TARGET static void NAME(const double *p, const double *q, double *out, ptrdiff_t n) {                   \
        if (q) {                                                                                            \
            EXPFAM_SIMD                                                                                     \
            for (ptrdiff_t j = 0; j < n; j++) out[j] += expfam_log1(p[j] / q[j]);                           \
        } else {                                                                                            \
            EXPFAM_SIMD                                                                                     \
            for (ptrdiff_t j = 0; j < n; j++) out[j] += expfam_log1(p[j]);                                  \
        }                                                                                                   \
    }
EXPFAM_INSTANCES(EXPFAM_ADD_LOG_RATIO, void, expfam_add_log_ratio,
                 (const double *, const double *, double *, ptrdiff_t))

/* p[j] *= prod_t (rows[t][ks[j]] + a[t]): for few slots, whose entries are fetched side by side. */
EXPFAM_UNUSED static void expfam_gathered_products_int(const int32_t *const *rows, const double *a, ptrdiff_t n_rows,
                                                       const ptrdiff_t *ks, double *p, ptrdiff_t n) {
    for (ptrdiff_t j = 0; j < n; j++) {
        double product = p[j];
        for (ptrdiff_t t = 0; t < n_rows; t++) product *= (double)rows[t][ks[j]] + a[t];
        p[j] = product;
    }
}
EXPFAM_UNUSED static void expfam_gathered_products_real(const double *const *rows, const double *a, ptrdiff_t n_rows,
                                                        const ptrdiff_t *ks, double *p, ptrdiff_t n) {
    for (ptrdiff_t j = 0; j < n; j++) {
        double product = p[j];
        for (ptrdiff_t t = 0; t < n_rows; t++) product *= rows[t][ks[j]] + a[t];
        p[j] = product;
    }
}

/* A double that several reading threads may fill with the same bits at the same time. */
EXPFAM_INLINE double expfam_load_shared(const double *address) {
#if defined(__GNUC__) || defined(__clang__)
    double value;
    __atomic_load(address, &value, __ATOMIC_RELAXED);
    return value;
#else
    return *(const volatile double *)address;
#endif
}
EXPFAM_INLINE void expfam_store_shared(double *address, double value) {
#if defined(__GNUC__) || defined(__clang__)
    __atomic_store(address, &value, __ATOMIC_RELAXED);
#else
    *(volatile double *)address = value;
#endif
}
/* ---- end of count tables ------------------------------------------------------------------------------------- */

/* ---- Gaussian clusters -------------------------------------------------------------------------------------------
 * Clusters stand in blocks of EXPFAM_LANES: row r of a block holds one number of each of its clusters, so that a datum
 * is scored against all of them at once by plain vector arithmetic, in one stream through memory. Scores return 1 when
 * a lane left the range of doubles; the caller then scores that datum cluster by cluster with scaled arithmetic. */
#if defined(__GNUC__) || defined(__clang__)
#define EXPFAM_LANES 8
#define EXPFAM_VECTOR(bytes) __attribute__((vector_size(bytes), aligned(8), may_alias))
typedef double expfam_double2 EXPFAM_VECTOR(16);
typedef double expfam_double4 EXPFAM_VECTOR(32);
typedef double expfam_double8 EXPFAM_VECTOR(64);
#else
#define EXPFAM_LANES 1
typedef double expfam_double2, expfam_double4, expfam_double8;
#endif
#define EXPFAM_HUGE 1e290

/* Instances with vectors of the target's own width: a block is gone through in EXPFAM_LANES / width parts, since
 * compilers break wider vectors up badly. BODY is a macro taking (name, target, vector type). */
#if EXPFAM_DISPATCH
#define EXPFAM_LANE_INSTANCES(BODY, result, name, arguments)                                                \
    BODY(name##_base, , expfam_double2)                                                                     \
    BODY(name##_avx2, EXPFAM_AVX2, expfam_double4)                                                          \
    BODY(name##_avx512, EXPFAM_AVX512, expfam_double8)                                                      \
    EXPFAM_UNUSED static result (*name) arguments = name##_base;                                            \
    __attribute__((constructor)) static void name##_pick(void) {                                            \
        int level = expfam_isa();                                                                           \
        name = level == 2 ? name##_avx512 : level == 1 ? name##_avx2 : name##_base;                         \
    }
#else
#define EXPFAM_LANE_INSTANCES(BODY, result, name, arguments)                                                \
    BODY(name##_base, , expfam_double2) EXPFAM_UNUSED static result (*name) arguments = name##_base;
#endif
#define EXPFAM_WIDTH(VECTOR) ((ptrdiff_t)(sizeof(VECTOR) / sizeof(double)))

/* Logarithm of each lane, in place; through memory, because functions of vectors have no common calling convention. */
#define EXPFAM_LOG_LANES(VECTOR, VALUE)                                                                     \
    do {                                                                                                    \
        double lane[sizeof(VECTOR) / sizeof(double)];                                                       \
        memcpy(lane, &(VALUE), sizeof lane);                                                                \
        EXPFAM_SIMD                                                                                         \
        for (ptrdiff_t l = 0; l < EXPFAM_WIDTH(VECTOR); l++) lane[l] = expfam_log1(lane[l]);                \
        memcpy(&(VALUE), lane, sizeof lane);                                                                \
    } while (0)

/* The lanes of clusters start, start + 1, ... that were asked for. */
EXPFAM_INLINE void expfam_store(double *out, ptrdiff_t start, ptrdiff_t count, const void *lanes, ptrdiff_t width) {
    if (count - start >= width) memcpy(out + start, lanes, (size_t)width * sizeof(double));
    else if (count > start) memcpy(out + start, lanes, (size_t)(count - start) * sizeof(double));
}

/* Whether some lane is NaN or beyond the range in which scores are computed plainly. */
EXPFAM_INLINE int expfam_is_wild(const void *lanes, ptrdiff_t width) {
    double lane[EXPFAM_LANES], total = 0.0;
    memcpy(lane, lanes, (size_t)width * sizeof(double));
    for (ptrdiff_t l = 0; l < width; l++) total += fabs(lane[l]);
    return !(total < EXPFAM_HUGE);
}

/* Rows of a block: constant, half, then location and weight of each column.
 * score = constant - half * sum_f log(1 + weight (x - location)^2), one logarithm for 8 columns. */
#define EXPFAM_T_SCAN(NAME, TARGET, VECTOR)                                                                 \
    TARGET static int NAME(const double *x, const double *block, ptrdiff_t d, ptrdiff_t count, double *out) { \
        enum { WIDTH = EXPFAM_WIDTH(VECTOR), STEP = EXPFAM_LANES / EXPFAM_WIDTH(VECTOR) };                  \
        VECTOR worst = *(const VECTOR *)block * 0.0;                                                        \
        for (ptrdiff_t start = 0; start < count; start += WIDTH) {                                          \
            const VECTOR *row = (const VECTOR *)(block + start / EXPFAM_LANES * EXPFAM_LANES * (2 + 2 * d) + \
                                                 start % EXPFAM_LANES);                                     \
            VECTOR constant = row[0], half = row[STEP], sum = row[0] * 0.0;                                 \
            row += 2 * STEP;                                                                                \
            for (ptrdiff_t f = 0; f < d; f += 8) {                                                          \
                ptrdiff_t stop = d - f < 8 ? d : f + 8;                                                     \
                VECTOR product = row[0] * 0.0 + 1.0;                                                        \
                for (ptrdiff_t g = f; g < stop; g++, row += 2 * STEP) {                                     \
                    VECTOR t = x[g] - row[0];                                                               \
                    product *= 1.0 + row[STEP] * t * t;                                                     \
                }                                                                                           \
                worst += product;                                                                           \
                EXPFAM_LOG_LANES(VECTOR, product);                                                          \
                sum += product;                                                                             \
            }                                                                                               \
            sum = constant - half * sum;                                                                    \
            expfam_store(out, start, count, &sum, WIDTH);                                                   \
        }                                                                                                   \
        return expfam_is_wild(&worst, WIDTH);                                                               \
    }
EXPFAM_LANE_INSTANCES(EXPFAM_T_SCAN, int, expfam_t_scan,
                      (const double *, const double *, ptrdiff_t, ptrdiff_t, double *))

/* Rows of a block: constant, half inverse variance, then the location of each column.
 * score = constant + (offset - half * sum_f (x - location)^2). */
#define EXPFAM_SPHERE_SCAN(NAME, TARGET, VECTOR)                                                            \
    TARGET static int NAME(const double *x, double offset, const double *block, ptrdiff_t d, ptrdiff_t count, \
                           double *out) {                                                                   \
        enum { WIDTH = EXPFAM_WIDTH(VECTOR), STEP = EXPFAM_LANES / EXPFAM_WIDTH(VECTOR) };                  \
        VECTOR worst = *(const VECTOR *)block * 0.0;                                                        \
        for (ptrdiff_t start = 0; start < count; start += WIDTH) {                                          \
            const VECTOR *row = (const VECTOR *)(block + start / EXPFAM_LANES * EXPFAM_LANES * (2 + d) +    \
                                                 start % EXPFAM_LANES);                                     \
            VECTOR constant = row[0], half = row[STEP], sum = row[0] * 0.0;                                 \
            row += 2 * STEP;                                                                                \
            for (ptrdiff_t f = 0; f < d; f++, row += STEP) {                                                \
                VECTOR t = x[f] - row[0];                                                                   \
                sum += t * t;                                                                               \
            }                                                                                               \
            sum *= half;                                                                                    \
            worst += sum;                                                                                   \
            sum = constant + (offset - sum);                                                                \
            expfam_store(out, start, count, &sum, WIDTH);                                                   \
        }                                                                                                   \
        return expfam_is_wild(&worst, WIDTH) || !(offset < EXPFAM_HUGE);                                    \
    }
EXPFAM_LANE_INSTANCES(EXPFAM_SPHERE_SCAN, int, expfam_sphere_scan,
                      (const double *, double, const double *, ptrdiff_t, ptrdiff_t, double *))

/* Rows of a block: constant, half, weight, the location of each column, then the Cholesky factor by rows, each ending
 * with the reciprocal of its diagonal. score = constant - half * log(1 + weight |L^-1 (x - location)|^2).
 * `z` is scratch for EXPFAM_LANES * d numbers. Two partial sums shorten the chain of dependent additions. */
#define EXPFAM_GAUSS_SCAN(NAME, TARGET, VECTOR)                                                             \
    TARGET static int NAME(const double *x, const double *block, ptrdiff_t d, ptrdiff_t count, double *out, \
                           double *scratch) {                                                               \
        enum { WIDTH = EXPFAM_WIDTH(VECTOR), STEP = EXPFAM_LANES / EXPFAM_WIDTH(VECTOR) };                  \
        ptrdiff_t rows = 3 + d + d * (d + 1) / 2;                                                           \
        VECTOR *z = (VECTOR *)scratch, worst = *(const VECTOR *)block * 0.0;                                \
        for (ptrdiff_t start = 0; start < count; start += WIDTH) {                                          \
            const VECTOR *row = (const VECTOR *)(block + start / EXPFAM_LANES * EXPFAM_LANES * rows +       \
                                                 start % EXPFAM_LANES);                                     \
            const VECTOR *location = row + 3 * STEP;                                                        \
            VECTOR constant = row[0], half = row[STEP], weight = row[2 * STEP], sum = row[0] * 0.0;         \
            row += (3 + d) * STEP;                                                                          \
            for (ptrdiff_t j = 0; j < d; j++) {                                                             \
                VECTOR t = x[j] - location[j * STEP], u = constant * 0.0;                                        \
                ptrdiff_t i = 0;                                                                            \
                for (; i + 1 < j; i += 2, row += 2 * STEP) {                                                \
                    t -= row[0] * z[i];                                                                     \
                    u += row[STEP] * z[i + 1];                                                              \
                }                                                                                           \
                if (i < j) {                                                                                \
                    t -= row[0] * z[i];                                                                     \
                    row += STEP;                                                                            \
                }                                                                                           \
                t = (t - u) * row[0];                                                                       \
                row += STEP;                                                                                \
                z[j] = t;                                                                                   \
                sum += t * t;                                                                               \
            }                                                                                               \
            sum = 1.0 + weight * sum;                                                                       \
            worst += sum;                                                                                   \
            EXPFAM_LOG_LANES(VECTOR, sum);                                                                  \
            sum = constant - half * sum;                                                                    \
            expfam_store(out, start, count, &sum, WIDTH);                                                   \
        }                                                                                                   \
        return expfam_is_wild(&worst, WIDTH);                                                               \
    }
EXPFAM_LANE_INSTANCES(EXPFAM_GAUSS_SCAN, int, expfam_gauss_scan,
                      (const double *, const double *, ptrdiff_t, ptrdiff_t, double *, double *))

/* Factors of one cluster: lower triangle by columns, each beginning with its diagonal; this is also the order of the
 * upper triangle by rows, in which statistics are packed with off-diagonals times sqrt 2. */

/* In place; 1 when a pivot is not positive. */
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

/* Factor of L L' + sign v v' by plane (sign 1) or hyperbolic (-1) rotations; overwrites v. 1 when a pivot falls below
 * 1e-8 of the old one, where the downdate has lost its digits; L is then spoilt. */
#define EXPFAM_RANK_ONE(NAME, TARGET)                                                                       \
    TARGET static int NAME(double *a, double *v, double sign, ptrdiff_t d) {                                \
        double *column = a;                                                                                 \
        for (ptrdiff_t j = 0; j < d; j++) {                                                                 \
            double old = column[0], square = old * old + sign * v[j] * v[j], pivot, c, s, inverse;          \
            if (!(square > 1e-16 * old * old) || !(square < INFINITY)) return 1;                            \
            pivot = sqrt(square);                                                                           \
            c = pivot / old;                                                                                \
            s = v[j] / old;                                                                                 \
            inverse = 1.0 / c;                                                                              \
            column[0] = pivot;                                                                              \
            EXPFAM_SIMD                                                                                     \
            for (ptrdiff_t i = 1; i < d - j; i++) {                                                         \
                double entry = (column[i] + sign * s * v[j + i]) * inverse;                                 \
                v[j + i] = c * v[j + i] - s * entry;                                                        \
                column[i] = entry;                                                                          \
            }                                                                                               \
            column += d - j;                                                                                \
        }                                                                                                   \
        return 0;                                                                                           \
    }
EXPFAM_INSTANCES(EXPFAM_RANK_ONE, int, expfam_rank_one, (double *, double *, double, ptrdiff_t))

/* |L^-1 v|^2 with the reciprocals of the diagonal given; overwrites v with the solution. */
#define EXPFAM_SOLVE_SQUARE(NAME, TARGET)                                                                   \
    TARGET static double NAME(const double *a, const double *reciprocal, double *v, ptrdiff_t d) {          \
        double sum = 0.0;                                                                                   \
        for (ptrdiff_t j = 0; j < d; j++) {                                                                 \
            double z = v[j] * reciprocal[j];                                                                \
            v[j] = z;                                                                                       \
            sum += z * z;                                                                                   \
            EXPFAM_SIMD                                                                                     \
            for (ptrdiff_t i = 1; i < d - j; i++) v[j + i] -= a[i] * z;                                     \
            a += d - j;                                                                                     \
        }                                                                                                   \
        return sum;                                                                                         \
    }
EXPFAM_INSTANCES(EXPFAM_SOLVE_SQUARE, double, expfam_solve_square,
                 (const double *, const double *, double *, ptrdiff_t))

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

/* Posterior scale: out = prior + unsvec(S) - shift first' - first shift' + n shift shift' - weight about about'. */
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
/* ---- end of Gaussian clusters ---- */

/* ---- geometry in single precision ----
 * Squared Euclidean distance by direct differences: the expansion into norms cancels. Sums run in float over at most
 * 4096 terms, then in double. */
#define EXPFAM_SQUARE_DISTANCE(NAME, TARGET)                                                                \
    TARGET static double NAME(const float *a, const float *b, ptrdiff_t n) {                               \
        double total = 0.0;                                                                                 \
        for (ptrdiff_t start = 0; start < n; start += 4096) {                                               \
            ptrdiff_t stop = n - start < 4096 ? n : start + 4096;                                           \
            float sum = 0.0f;                                                                               \
            EXPFAM_SIMD_SUM(sum)                                                                            \
            for (ptrdiff_t i = start; i < stop; i++) sum += (a[i] - b[i]) * (a[i] - b[i]);                  \
            total += sum;                                                                                   \
        }                                                                                                   \
        return total;                                                                                       \
    }
EXPFAM_INSTANCES(EXPFAM_SQUARE_DISTANCE, double, expfam_square_distance, (const float *, const float *, ptrdiff_t))
/* ---- end of geometry ---- */
#endif

/* Inner loops with one instance for each instruction set; the instance is chosen once, when a module is loaded.
 * EXPFAM_ISA=base|avx2|avx512 lowers the choice, so tests can run all instances on one machine. Wheels are built with
 * baseline flags; only the bodies below are compiled for more. Float results can differ between instances in their last
 * bits (fused multiply-add, order of sums); integer results never differ. Everything is static: each module has its own
 * copy.
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

/* 64 bytes as lanes, for short sums: a reduction clause adds the lanes one after the other, through memory, which costs
 * more than all terms of a short product. */
#if defined(__GNUC__)
#define EXPFAM_WIDE 1
typedef float expfam_floats __attribute__((vector_size(64)));
typedef float expfam_half_floats __attribute__((vector_size(32)));
typedef float expfam_four_floats __attribute__((vector_size(16)));
typedef double expfam_doubles __attribute__((vector_size(64)));
typedef double expfam_half_doubles __attribute__((vector_size(32)));
#define EXPFAM_SUM_FLOATS(lanes, sum)                                                                       \
    {                                                                                                       \
        expfam_half_floats low8, high8;                                                                     \
        expfam_four_floats low4, high4;                                                                     \
        memcpy(&low8, &lanes, 32), memcpy(&high8, (const char *)&lanes + 32, 32);                           \
        low8 += high8;                                                                                      \
        memcpy(&low4, &low8, 16), memcpy(&high4, (const char *)&low8 + 16, 16);                             \
        low4 += high4;                                                                                      \
        sum = (low4[0] + low4[2]) + (low4[1] + low4[3]);                                                    \
    }
#define EXPFAM_SUM_DOUBLES(lanes, sum)                                                                      \
    {                                                                                                       \
        expfam_half_doubles low4, high4;                                                                    \
        memcpy(&low4, &lanes, 32), memcpy(&high4, (const char *)&lanes + 32, 32);                           \
        low4 += high4;                                                                                      \
        sum = (low4[0] + low4[2]) + (low4[1] + low4[3]);                                                    \
    }
#else
#define EXPFAM_WIDE 0
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

/* Return the instruction set of the machine, lowered by EXPFAM_ISA: 0 base, 1 AVX2, 2 AVX-512. */
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

/* exp(x) for x <= 709, relative error below 6e-16; for x < -708 it returns the value at -708 (3e-308). */
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

/* out += factor * row; an entry -inf of the row makes the entry of out -inf for good */
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

/* x := exp(x - shift), exactly 0 from 700 nats below the shift on (so -inf gives 0). The sum of each block of 64 is
 * written to `sums`; the total is returned. These weights and sums are the law of the draw that follows. */
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
                w = t <= -700.0 ? 0.0 : w; /* a NaN stays a NaN, also in the total */                        \
                row[i] = w;                                                                                 \
                sum += w;                                                                                   \
            }                                                                                               \
            sums[b] = sum;                                                                                  \
            total += sum;                                                                                   \
        }                                                                                                   \
        return total;                                                                                       \
    }
EXPFAM_INSTANCES(EXPFAM_EXP_BLOCKS, double, expfam_exp_blocks, (double *, double, double *, ptrdiff_t))

/* Draw an index with the weights of expfam_exp_blocks by one uniform number in [0, 1): first a block, then in it. */
EXPFAM_UNUSED static ptrdiff_t expfam_pick(const double *w, const double *sums, double total, double uniform, ptrdiff_t n) {
    double left = uniform * total;
    ptrdiff_t b = 0, last = (n - 1) / EXPFAM_BLOCK, i, stop;
    while (b < last && left >= sums[b]) left -= sums[b++];
    stop = (b + 1) * EXPFAM_BLOCK < n ? (b + 1) * EXPFAM_BLOCK : n;
    for (i = b * EXPFAM_BLOCK; i < stop - 1 && left >= w[i]; i++) left -= w[i];
    /* rounding may lead past the last positive weight: step back to it */
    while (i > 0 && w[i] == 0.0) i--;
    if (w[i] == 0.0) while (i < n - 1 && w[i] == 0.0) i++;
    return i;
}

/* ---- count tables: products of (count + pseudo-count) over the rows of a word-major table ------------------------
 * A row has the counts of one word in all clusters, one for each slot, padded to EXPFAM_LINE entries and aligned to
 * 64 bytes. The logarithm of a product of up to 32 factors replaces 32 logarithms; the caller limits the number of
 * factors so that products stay normal. Rows of a table are far apart in memory and too short for the hardware
 * prefetcher, so the next four rows are prefetched while four are read. */
#define EXPFAM_LINE 16
#if defined(__GNUC__) || defined(__clang__)
/* The empty statement counts as an effect: compilers drop calls of functions without effects, and their prefetches. */
#define EXPFAM_PREFETCH(address) do { __builtin_prefetch(address); __asm__ volatile("" : : "r"(address)); } while (0)
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

/* p[j] = prod_{t < m} (z[j] + t) for j < n, n a multiple of EXPFAM_LINE. Four factors at a time are computed from
 * y (y + 3) = u and (y + 1) (y + 2) = u + 2, where all terms are positive. */
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

/* p[j] *= prod_t (rows[t][ks[j]] + a[t]), for a few slots; their entries are loaded together. */
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

/* A double that several reading threads may write with the same bits at the same time. */
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
 * Clusters are stored in blocks of EXPFAM_LANES: row r of a block has one number of each of its clusters. So a datum is
 * scored against all clusters of a block together by plain vector arithmetic, in one stream through memory. The
 * functions return 1 if a lane left the range of doubles; the caller then scores that datum cluster by cluster with
 * scaled arithmetic. */
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

/* Instances with vectors of the target's own width: a block is processed in EXPFAM_LANES / width parts, because
 * compilers generate bad code for wider vectors. BODY is a macro taking (name, target, vector type). */
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

/* Logarithm of each lane, in place, through memory: functions of vectors have no common calling convention. */
#define EXPFAM_LOG_LANES(VECTOR, VALUE)                                                                     \
    do {                                                                                                    \
        double lane[sizeof(VECTOR) / sizeof(double)];                                                       \
        memcpy(lane, &(VALUE), sizeof lane);                                                                \
        EXPFAM_SIMD                                                                                         \
        for (ptrdiff_t l = 0; l < EXPFAM_WIDTH(VECTOR); l++) lane[l] = expfam_log1(lane[l]);                \
        memcpy(&(VALUE), lane, sizeof lane);                                                                \
    } while (0)

/* Copy the requested lanes of clusters start, start + 1, ... */
EXPFAM_INLINE void expfam_store(double *out, ptrdiff_t start, ptrdiff_t count, const void *lanes, ptrdiff_t width) {
    if (count - start >= width) memcpy(out + start, lanes, (size_t)width * sizeof(double));
    else if (count > start) memcpy(out + start, lanes, (size_t)(count - start) * sizeof(double));
}

/* Say whether a lane is NaN or outside of the range of plain arithmetic. */
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

/* Rows of a block: constant, half, weight, the location of each column, then by rows the inverse W of the Cholesky
 * factor. score = constant - half * log(1 + weight |W (x - location)|^2). Two rows at a time share their loads and form
 * two chains of additions. `scratch` has EXPFAM_LANES * d numbers. */
#define EXPFAM_GAUSS_SCAN(NAME, TARGET, VECTOR)                                                             \
    TARGET static int NAME(const double *x, const double *block, ptrdiff_t d, ptrdiff_t count, double *out, \
                           double *scratch) {                                                               \
        enum { WIDTH = EXPFAM_WIDTH(VECTOR), STEP = EXPFAM_LANES / EXPFAM_WIDTH(VECTOR) };                  \
        ptrdiff_t rows = 3 + d + d * (d + 1) / 2;                                                           \
        VECTOR *v = (VECTOR *)(((uintptr_t)scratch + 63) & ~(uintptr_t)63), worst = *(const VECTOR *)block * 0.0; \
        for (ptrdiff_t start = 0; start < count; start += WIDTH) {                                          \
            const VECTOR *row = (const VECTOR *)(block + start / EXPFAM_LANES * EXPFAM_LANES * rows +       \
                                                 start % EXPFAM_LANES);                                     \
            VECTOR constant = row[0], half = row[STEP], weight = row[2 * STEP], sum = row[0] * 0.0;         \
            row += 3 * STEP;                                                                                \
            for (ptrdiff_t j = 0; j < d; j++, row += STEP) v[j] = x[j] - row[0];                            \
            for (ptrdiff_t j = 0; j + 1 < d; j += 2) {                                                      \
                const VECTOR *next = row + (j + 1) * STEP;                                                  \
                VECTOR a = row[0] * v[0], b = next[0] * v[0];                                               \
                for (ptrdiff_t i = 1; i <= j; i++) {                                                        \
                    a += row[i * STEP] * v[i];                                                              \
                    b += next[i * STEP] * v[i];                                                             \
                }                                                                                           \
                b += next[(j + 1) * STEP] * v[j + 1];                                                       \
                sum += a * a;                                                                               \
                sum += b * b;                                                                               \
                row = next + (j + 2) * STEP;                                                                \
            }                                                                                               \
            if (d % 2) {                                                                                    \
                VECTOR a = row[0] * v[0];                                                                   \
                for (ptrdiff_t i = 1; i < d; i++) a += row[i * STEP] * v[i];                                \
                sum += a * a;                                                                               \
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

/* ---- W = L^-1 of one cluster in panels of EXPFAM_PANEL rows. A panel stores its columns one after another, up to the
 * column of its last row. Zero rows in front fill the first panel, so that the last panels are whole. With a stored W,
 * |W v|^2 is a product without a chain of dependent rows, the memory of a cluster is contiguous, and a change of one
 * datum writes one stream. Panels of 4 rows have fewer zeros above the diagonal than panels of 8, which matters for
 * large tables: they are read at the speed of the cache. */
#if EXPFAM_LANES == 8
#define EXPFAM_PANEL 4
typedef expfam_double4 expfam_panel;
#else
#define EXPFAM_PANEL 1
typedef double expfam_panel;
#endif

EXPFAM_INLINE ptrdiff_t expfam_padding(ptrdiff_t d) { return (EXPFAM_PANEL - d % EXPFAM_PANEL) % EXPFAM_PANEL; }

/* Return the start of the panel with padded row r; with r = d + padding, the size of all panels. */
EXPFAM_INLINE ptrdiff_t expfam_panel_start(ptrdiff_t r, ptrdiff_t padding) {
    ptrdiff_t p = r / EXPFAM_PANEL;
    return EXPFAM_PANEL * (EXPFAM_PANEL * p * (p + 1) / 2 - padding * p);
}

EXPFAM_UNUSED static ptrdiff_t expfam_panel_size(ptrdiff_t d) {
    return expfam_panel_start(d + expfam_padding(d), expfam_padding(d));
}

/* diagonal[j] = W[j, j] */
EXPFAM_UNUSED static void expfam_panel_diagonal(const double *panels, double *diagonal, ptrdiff_t d) {
    ptrdiff_t r = expfam_padding(d), columns = EXPFAM_PANEL - r;
    for (ptrdiff_t j = 0; j < d; columns += EXPFAM_PANEL) {
        panels += EXPFAM_PANEL * columns;
        for (; r < EXPFAM_PANEL; r++, j++) diagonal[j] = panels[(r - EXPFAM_PANEL) * EXPFAM_PANEL + r];
        r = 0;
    }
}

/* Copy W by rows into a block of expfam_gauss_scan, where its entries are EXPFAM_LANES apart. */
EXPFAM_UNUSED static void expfam_panel_weave(const double *panels, double *out, ptrdiff_t d) {
    ptrdiff_t r = expfam_padding(d), columns = EXPFAM_PANEL - r;
    for (ptrdiff_t i = 0; i < d; columns += EXPFAM_PANEL) {
        for (; r < EXPFAM_PANEL; r++, i++)
            for (ptrdiff_t j = 0; j <= i; j++, out += EXPFAM_LANES) *out = panels[j * EXPFAM_PANEL + r];
        panels += EXPFAM_PANEL * columns;
        r = 0;
    }
}

/* Sum the entries by adding halves. */
EXPFAM_INLINE double expfam_panel_sum(const void *entries) {
    double a[EXPFAM_PANEL], total = 0.0;
    memcpy(a, entries, sizeof a);
    for (int l = 0; l < EXPFAM_PANEL / 2; l++) a[l] += a[l + EXPFAM_PANEL / 2];
    for (int l = 0; l < (EXPFAM_PANEL + 1) / 2; l++) total += a[l];
    return total;
}

/* Compute W v for the rows of one panel. The odd columns of the first panel come first, then EXPFAM_PANEL columns at a
 * time; four partial sums shorten the chain of additions. */
#define EXPFAM_PANEL_PRODUCT(panel, v, odd, columns, z)                                                     \
    do {                                                                                                    \
        expfam_panel z1 = (z) * 0.0, z2 = z1, z3 = z1;                                                      \
        ptrdiff_t col = 0;                                                                                  \
        for (; col < (odd); col++, (panel)++) (z) += (panel)[0] * (v)[col];                                 \
        for (; col + 3 < (columns); col += 4, (panel) += 4) {                                               \
            (z) += (panel)[0] * (v)[col];                                                                   \
            z1 += (panel)[1] * (v)[col + 1];                                                                \
            z2 += (panel)[2] * (v)[col + 2];                                                                \
            z3 += (panel)[3] * (v)[col + 3];                                                                \
        }                                                                                                   \
        for (; col < (columns); col++, (panel)++) (z) += (panel)[0] * (v)[col];                             \
        (z) += z1 + (z2 + z3);                                                                              \
    } while (0)

/* Return |W v|^2 and write z = W v with the padding in front. */
#define EXPFAM_PANEL_SQUARE(NAME, TARGET)                                                                   \
    TARGET static double NAME(const double *panels, const double *v, ptrdiff_t d, double *z) {              \
        const expfam_panel *panel = (const expfam_panel *)panels;                                           \
        expfam_panel sum = panel[0] * 0.0;                                                                  \
        ptrdiff_t odd = d % EXPFAM_PANEL, columns = odd ? odd : EXPFAM_PANEL;                               \
        for (; columns <= d; columns += EXPFAM_PANEL, z += EXPFAM_PANEL) {                                  \
            expfam_panel row = panel[0] * 0.0;                                                              \
            EXPFAM_PANEL_PRODUCT(panel, v, odd, columns, row);                                              \
            memcpy(z, &row, sizeof row);                                                                    \
            sum += row * row;                                                                               \
        }                                                                                                   \
        return expfam_panel_sum(&sum);                                                                      \
    }
EXPFAM_INSTANCES(EXPFAM_PANEL_SQUARE, double, expfam_panel_square,
                 (const double *, const double *, ptrdiff_t, double *))

/* Compute the scores of expfam_gauss_scan from blocks that have only constant, half and weight, and from one record for
 * each cluster, `width` apart: its location, padded at its end like x, then its panels. Two panels are processed
 * together, because the entries of v need as many loads as W. `scratch` has d + EXPFAM_PANEL + 8 numbers. */
#define EXPFAM_PANEL_SCAN(NAME, TARGET, VECTOR)                                                             \
    TARGET static int NAME(const double *x, const double *block, const double *record, ptrdiff_t width, ptrdiff_t d, \
                           ptrdiff_t count, double *out, double *scratch) {                                 \
        double *v = (double *)(((uintptr_t)scratch + 63) & ~(uintptr_t)63), worst[EXPFAM_LANES] = {0.0};    \
        ptrdiff_t odd = d % EXPFAM_PANEL, padded = d + expfam_padding(d), single = padded / EXPFAM_PANEL % 2; \
        for (ptrdiff_t start = 0; start < count; start += EXPFAM_LANES, block += 3 * EXPFAM_LANES) {        \
            double squares[EXPFAM_LANES] = {0.0};                                                           \
            ptrdiff_t some = count - start < EXPFAM_LANES ? count - start : EXPFAM_LANES;                   \
            for (ptrdiff_t l = 0; l < some; l++, record += width) {                                         \
                const expfam_panel *panel = (const expfam_panel *)(record + padded);                        \
                expfam_panel sum = panel[0] * 0.0;                                                          \
                ptrdiff_t columns = odd ? odd : EXPFAM_PANEL;                                               \
                for (ptrdiff_t j = 0; j < padded; j += EXPFAM_PANEL)                                        \
                    *(expfam_panel *)(v + j) = *(const expfam_panel *)(x + j) - *(const expfam_panel *)(record + j); \
                if (sizeof(VECTOR) < sizeof(expfam_panel)) { /* two columns of half vectors, not two panels */  \
                    const VECTOR *half = (const VECTOR *)panel;                                             \
                    VECTOR both = half[0] * 0.0;                                                            \
                    double lane[EXPFAM_LANES];                                                              \
                    for (; columns <= d; columns += EXPFAM_PANEL) {                                         \
                        VECTOR a = half[0] * 0.0, b = a;                                                    \
                        for (ptrdiff_t col = 0; col < columns; col++, half += 2) {                          \
                            a += half[0] * v[col];                                                          \
                            b += half[1] * v[col];                                                          \
                        }                                                                                   \
                        both += a * a + b * b;                                                              \
                    }                                                                                       \
                    memcpy(lane, &both, sizeof both);                                                       \
                    squares[l] = lane[0] + lane[1 % EXPFAM_LANES];                                          \
                    continue;                                                                               \
                }                                                                                           \
                if (single) {                                                                               \
                    expfam_panel row = panel[0] * 0.0;                                                      \
                    EXPFAM_PANEL_PRODUCT(panel, v, odd, columns, row);                                      \
                    sum += row * row;                                                                       \
                    columns += EXPFAM_PANEL;                                                                \
                }                                                                                           \
                for (; columns < d; columns += 2 * EXPFAM_PANEL) {                                          \
                    const expfam_panel *next = panel + columns;                                             \
                    expfam_panel a = panel[0] * 0.0, b = a, a1 = a, b1 = a;                                 \
                    ptrdiff_t col = 0;                                                                      \
                    for (; col < odd; col++) {                                                              \
                        a += panel[col] * v[col];                                                           \
                        b += next[col] * v[col];                                                            \
                    }                                                                                       \
                    for (; col + 3 < columns; col += 4) {                                                   \
                        a += panel[col] * v[col];                                                           \
                        b += next[col] * v[col];                                                            \
                        a1 += panel[col + 1] * v[col + 1];                                                  \
                        b1 += next[col + 1] * v[col + 1];                                                   \
                        a += panel[col + 2] * v[col + 2];                                                   \
                        b += next[col + 2] * v[col + 2];                                                    \
                        a1 += panel[col + 3] * v[col + 3];                                                  \
                        b1 += next[col + 3] * v[col + 3];                                                   \
                    }                                                                                       \
                    for (; col < columns; col++) {                                                          \
                        a += panel[col] * v[col];                                                           \
                        b += next[col] * v[col];                                                            \
                    }                                                                                       \
                    for (ptrdiff_t end = 0; end < EXPFAM_PANEL; end++) b1 += next[col + end] * v[col + end]; \
                    a += a1;                                                                                \
                    b += b1;                                                                                \
                    sum += a * a + b * b;                                                                   \
                    panel = next + columns + EXPFAM_PANEL;                                                  \
                }                                                                                           \
                squares[l] = expfam_panel_sum(&sum);                                                        \
            }                                                                                               \
            EXPFAM_SIMD                                                                                     \
            for (ptrdiff_t l = 0; l < EXPFAM_LANES; l++) {                                                  \
                double square = 1.0 + block[2 * EXPFAM_LANES + l] * squares[l];                             \
                worst[l] += square;                                                                         \
                squares[l] = block[l] - block[EXPFAM_LANES + l] * expfam_log1(square);                      \
            }                                                                                               \
            expfam_store(out, start, count, squares, EXPFAM_LANES);                                         \
        }                                                                                                   \
        return expfam_is_wild(worst, EXPFAM_LANES);                                                         \
    }
EXPFAM_LANE_INSTANCES(EXPFAM_PANEL_SCAN, int, expfam_panel_scan,
                      (const double *, const double *, const double *, ptrdiff_t, ptrdiff_t, ptrdiff_t, double *, double *))

/* Replace W by the one of L L' + sign v v', from p = W v with its padding. Unless the determinant changes by a finite
 * factor above `least`, return 1 and change nothing. With t_r = 1 + sign (p_0^2 + ... + p_r^2), row r becomes
 *     sqrt(t_{r-1} / t_r) (w_r - sign p_r / t_{r-1} (p_0 w_0 + ... + p_{r-1} w_{r-1})),
 * because these rows have the inner products of (I + sign p p')^-1. `scratch` has 4 (d + EXPFAM_PANEL) numbers: for
 * each column the sums over the panels above, then t and the numbers that depend on it. */
#define EXPFAM_PANEL_ROTATE(NAME, TARGET)                                                                   \
    TARGET static int NAME(double *panels, const double *p, double sign, double least, ptrdiff_t d, double *scratch) { \
        ptrdiff_t rows = d + expfam_padding(d);                                                             \
        double *carry = scratch, *stretch = carry + rows, *share = stretch + rows, *t = share + rows;       \
        expfam_panel *panel = (expfam_panel *)panels;                                                       \
        t[0] = 1.0;                                                                                         \
        for (ptrdiff_t r = 0; r < rows; r++) t[r + 1] = t[r] + sign * p[r] * p[r];                          \
        if (!(t[rows] > least) || !(t[rows] < EXPFAM_HUGE)) return 1;                                       \
        EXPFAM_SIMD                                                                                         \
        for (ptrdiff_t r = 0; r < rows; r++) {                                                              \
            stretch[r] = sqrt(t[r] / t[r + 1]);                                                             \
            share[r] = -stretch[r] * sign * p[r] / t[r];                                                    \
            carry[r] = 0.0;                                                                                 \
        }                                                                                                   \
        for (ptrdiff_t columns = EXPFAM_PANEL - expfam_padding(d); columns <= d; columns += EXPFAM_PANEL) { \
            double entries[EXPFAM_PANEL][EXPFAM_PANEL];                                                     \
            expfam_panel turn[EXPFAM_PANEL], above = *(const expfam_panel *)share;                          \
            for (ptrdiff_t s = 0; s < EXPFAM_PANEL; s++)                                                    \
                for (ptrdiff_t r = 0; r < EXPFAM_PANEL; r++)                                                \
                    entries[s][r] = r < s ? 0.0 : r == s ? stretch[r] : share[r] * p[s];                    \
            memcpy(turn, entries, sizeof turn);                                                             \
            for (ptrdiff_t j = 0; j < columns; j++, panel++) {                                              \
                const double *old = (const double *)panel;                                                  \
                expfam_panel row = above * carry[j];                                                        \
                double sum = 0.0;                                                                           \
                for (ptrdiff_t s = 0; s < EXPFAM_PANEL; s++) {                                              \
                    row += turn[s] * old[s];                                                                \
                    sum += p[s] * old[s];                                                                   \
                }                                                                                           \
                carry[j] += sum;                                                                            \
                *panel = row;                                                                               \
            }                                                                                               \
            p += EXPFAM_PANEL;                                                                              \
            stretch += EXPFAM_PANEL;                                                                        \
            share += EXPFAM_PANEL;                                                                          \
        }                                                                                                   \
        return 0;                                                                                           \
    }
EXPFAM_INSTANCES(EXPFAM_PANEL_ROTATE, int, expfam_panel_rotate,
                 (double *, const double *, double, double, ptrdiff_t, double *))

/* Compute the panels of W = L^-1 from L by columns and the reciprocals of its diagonal, EXPFAM_PANEL columns of W at a
 * time. `scratch` has EXPFAM_PANEL * d numbers. */
#define EXPFAM_PANEL_INVERT(NAME, TARGET)                                                                   \
    TARGET static void NAME(const double *a, const double *reciprocal, double *panels, ptrdiff_t d, double *scratch) { \
        ptrdiff_t padding = expfam_padding(d);                                                              \
        memset(panels, 0, (size_t)expfam_panel_start(d + padding, padding) * sizeof(double));               \
        for (ptrdiff_t first = 0; first < d; first += EXPFAM_PANEL) {                                       \
            ptrdiff_t some = d - first < EXPFAM_PANEL ? d - first : EXPFAM_PANEL;                           \
            for (ptrdiff_t i = first; i < d; i++) {                                                         \
                expfam_panel sum, *row = (expfam_panel *)scratch;                                           \
                double unit[EXPFAM_PANEL] = {0.0}, *entry;                                                  \
                const double *factor = a + first * d - first * (first - 1) / 2 + i - first;                 \
                if (i - first < EXPFAM_PANEL) unit[i - first] = 1.0;                                        \
                memcpy(&sum, unit, sizeof sum);                                                             \
                for (ptrdiff_t k = first; k < i; k++, row++) {                                              \
                    sum -= *factor * *row;                                                                  \
                    factor += d - k - 1;                                                                    \
                }                                                                                           \
                *row = sum * reciprocal[i];                                                                 \
                entry = panels + expfam_panel_start(i + padding, padding) + (i + padding) % EXPFAM_PANEL;   \
                for (ptrdiff_t c = 0; c < some && first + c <= i; c++)                                      \
                    entry[(first + c) * EXPFAM_PANEL] = ((const double *)row)[c];                           \
            }                                                                                               \
        }                                                                                                   \
    }
EXPFAM_INSTANCES(EXPFAM_PANEL_INVERT, void, expfam_panel_invert,
                 (const double *, const double *, double *, ptrdiff_t, double *))

/* Cholesky factors of one cluster: the lower triangle by columns, each starting at the diagonal. This is also the order
 * of the upper triangle by rows, in which statistics are packed with off-diagonals times sqrt 2. */

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
/* ---- end of Gaussian clusters ---- */

/* ---- sign codes: random signs from hash bits, Hamming distances, weights of a proposal ------------------------------
 * All instances give bitwise the same results here, also floats: sums run in lanes in a fixed order, and a product is
 * never fused with a sum. Popcounts of whole vectors need AVX-512 VPOPCNTDQ; without it the AVX2 instance is used. */
#if defined(__GNUC__) && !defined(__clang__)
#define EXPFAM_UNFUSED __attribute__((optimize("fp-contract=off")))
#else
#define EXPFAM_UNFUSED
#endif
#if defined(__clang__)
#define EXPFAM_UNFUSED_BODY _Pragma("STDC FP_CONTRACT OFF")
#else
#define EXPFAM_UNFUSED_BODY
#endif
#define EXPFAM_LANES_SIGN 16

/* Count the bits of a word by shifts and sums, so that loops over it vectorise without a popcount instruction. */
EXPFAM_INLINE uint64_t expfam_popcount1(uint64_t x) {
    x -= x >> 1 & UINT64_C(0x5555555555555555);
    x = (x & UINT64_C(0x3333333333333333)) + (x >> 2 & UINT64_C(0x3333333333333333));
    x = (x + (x >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    x += x >> 8;
    x += x >> 16;
    return (x + (x >> 32)) & 127;
}

#if EXPFAM_DISPATCH
#include <immintrin.h>
#define EXPFAM_AVX512_VPOPCNT                                                                               \
    __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,avx512vpopcntdq,avx2,fma,popcnt,prefer-vector-width=512")))
/* As EXPFAM_INSTANCES; BODY takes one more argument, INNER of its instance. */
#define EXPFAM_POPCOUNT_INSTANCES(BODY, result, name, arguments, INNER)                                     \
    BODY(name##_base, , INNER##_base)                                                                       \
    BODY(name##_avx2, EXPFAM_AVX2, INNER##_avx2)                                                            \
    BODY(name##_avx512, EXPFAM_AVX512_VPOPCNT, INNER##_avx512)                                              \
    EXPFAM_UNUSED static result (*name) arguments = name##_base;                                            \
    __attribute__((constructor)) static void name##_pick(void) {                                            \
        int level = expfam_popcount_isa();                                                                  \
        name = level == 2 ? name##_avx512 : level == 1 ? name##_avx2 : name##_base;                         \
    }
#else
#define EXPFAM_POPCOUNT_INSTANCES(BODY, result, name, arguments, INNER)                                     \
    BODY(name##_base, , INNER##_base)                                                                       \
    EXPFAM_UNUSED static result (*name) arguments = name##_base;
#endif

/* expfam_isa() for loops that count bits: 2 only where vectors have a popcount. */
EXPFAM_UNUSED static int expfam_popcount_isa(void) {
#if EXPFAM_DISPATCH
    int level = expfam_isa();
    if (level == 2 && !__builtin_cpu_supports("avx512vpopcntdq")) level = 1;
    return level;
#else
    return 0;
#endif
}

/* 64-bit finaliser of MurmurHash3 (Appleby): a bijection; each output bit depends on all input bits. */
EXPFAM_INLINE uint64_t expfam_mix64(uint64_t x) {
    x = (x ^ (x >> 33)) * UINT64_C(0xff51afd7ed558ccd);
    x = (x ^ (x >> 33)) * UINT64_C(0xc4ceb9fe1a85ec53);
    return x ^ (x >> 33);
}
#define EXPFAM_HASH_COORDINATE UINT64_C(0x9e3779b97f4a7c15)
#define EXPFAM_HASH_WORD UINT64_C(0xd1b54a32d192ed03)

/* keys[i] = mix(coordinate c1 + seed), the common part of the hash words of one coordinate. */
#define EXPFAM_SIGN_KEYS(NAME, TARGET)                                                                      \
    TARGET static void NAME(const int64_t *coordinates, uint64_t seed, uint64_t *keys, ptrdiff_t n) {       \
        for (ptrdiff_t i = 0; i < n; i++)                                                                   \
            keys[i] = expfam_mix64((uint64_t)coordinates[i] * EXPFAM_HASH_COORDINATE + seed);               \
    }
EXPFAM_INSTANCES(EXPFAM_SIGN_KEYS, void, expfam_sign_keys, (const int64_t *, uint64_t, uint64_t *, ptrdiff_t))

/* words[i] = mix(keys[i] + p c2): the 64 hash bits of word p. */
#define EXPFAM_SIGN_WORDS(NAME, TARGET)                                                                     \
    TARGET static void NAME(const uint64_t *keys, uint64_t p, uint64_t *words, ptrdiff_t n) {               \
        for (ptrdiff_t i = 0; i < n; i++) words[i] = expfam_mix64(keys[i] + p * EXPFAM_HASH_WORD);          \
    }
EXPFAM_INSTANCES(EXPFAM_SIGN_WORDS, void, expfam_sign_words, (const uint64_t *, uint64_t, uint64_t *, ptrdiff_t))

/* dots[j] += sum_i (bit j of words[i] ? v[i] : -v[i]), j < 64. Integers modulo 2^32 or 2^64: twice the sum over set
 * bits minus the sum of all, one addition for each lane. Doubles: each lane sums in the order of i. The instances are
 * written out, because compilers did not keep 64 sums in registers and did not use bits as a mask of lanes. */
#define EXPFAM_SIGN_ADD(NAME, TYPE)                                                                         \
    static void NAME(const uint64_t *words, const TYPE *v, ptrdiff_t n, TYPE *dots) {                       \
        for (ptrdiff_t i = 0; i < n; i++) {                                                                 \
            const uint64_t word = words[i];                                                                 \
            const TYPE add = v[i];                                                                          \
            EXPFAM_SIMD                                                                                     \
            for (int j = 0; j < 64; j++) {                                                                  \
                const TYPE off = (TYPE)((word >> j & 1) - 1); /* all bits set where the bit is not */       \
                dots[j] += (add ^ off) - off;                                                               \
            }                                                                                               \
        }                                                                                                   \
    }
EXPFAM_SIGN_ADD(expfam_sign_add_32_base, uint32_t)
EXPFAM_SIGN_ADD(expfam_sign_add_64_base, uint64_t)

static void expfam_sign_add_real_base(const uint64_t *words, const double *v, ptrdiff_t n, double *dots) {
    for (ptrdiff_t i = 0; i < n; i++) {
        const double both[2] = {-v[i], v[i]};
        for (int j = 0; j < 64; j++) dots[j] += both[words[i] >> j & 1];
    }
}

#if EXPFAM_DISPATCH
EXPFAM_AVX2 static void expfam_sign_add_32_avx2(const uint64_t *words, const uint32_t *v, ptrdiff_t n, uint32_t *dots) {
    const __m256i bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    for (int half = 0; half < 2; half++) {
        __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a, all = a;
        const __m256i bits_b = _mm256_slli_epi32(bits, 8), bits_c = _mm256_slli_epi32(bits, 16);
        const __m256i bits_d = _mm256_slli_epi32(bits, 24);
        for (ptrdiff_t i = 0; i < n; i++) {
            const __m256i word = _mm256_set1_epi32((int32_t)(words[i] >> (32 * half)));
            const __m256i add = _mm256_set1_epi32((int32_t)v[i]);
            all = _mm256_add_epi32(all, add);
            a = _mm256_add_epi32(a, _mm256_and_si256(_mm256_cmpeq_epi32(_mm256_and_si256(word, bits), bits), add));
            b = _mm256_add_epi32(b, _mm256_and_si256(_mm256_cmpeq_epi32(_mm256_and_si256(word, bits_b), bits_b), add));
            c = _mm256_add_epi32(c, _mm256_and_si256(_mm256_cmpeq_epi32(_mm256_and_si256(word, bits_c), bits_c), add));
            d = _mm256_add_epi32(d, _mm256_and_si256(_mm256_cmpeq_epi32(_mm256_and_si256(word, bits_d), bits_d), add));
        }
#define EXPFAM_STORE(x, at)                                                                                 \
    _mm256_storeu_si256((__m256i *)(dots + 32 * half + at),                                                 \
                        _mm256_add_epi32(_mm256_loadu_si256((const __m256i *)(dots + 32 * half + at)),      \
                                         _mm256_sub_epi32(_mm256_add_epi32(x, x), all)))
        EXPFAM_STORE(a, 0);
        EXPFAM_STORE(b, 8);
        EXPFAM_STORE(c, 16);
        EXPFAM_STORE(d, 24);
#undef EXPFAM_STORE
    }
}

EXPFAM_AVX2 static void expfam_sign_add_64_avx2(const uint64_t *words, const uint64_t *v, ptrdiff_t n, uint64_t *dots) {
    for (int j = 0; j < 64; j += 8) {
        const __m256i bits = _mm256_setr_epi64x(1, 2, 4, 8), bits_b = _mm256_slli_epi64(bits, 4);
        __m256i a = _mm256_loadu_si256((const __m256i *)(dots + j));
        __m256i b = _mm256_loadu_si256((const __m256i *)(dots + j + 4));
        for (ptrdiff_t i = 0; i < n; i++) { /* (x xor -1) - (-1) is -x */
            const __m256i word = _mm256_set1_epi64x((int64_t)(words[i] >> j)), add = _mm256_set1_epi64x((int64_t)v[i]);
            const __m256i off = _mm256_cmpeq_epi64(_mm256_and_si256(word, bits), _mm256_setzero_si256());
            const __m256i off_b = _mm256_cmpeq_epi64(_mm256_and_si256(word, bits_b), _mm256_setzero_si256());
            a = _mm256_add_epi64(a, _mm256_sub_epi64(_mm256_xor_si256(add, off), off));
            b = _mm256_add_epi64(b, _mm256_sub_epi64(_mm256_xor_si256(add, off_b), off_b));
        }
        _mm256_storeu_si256((__m256i *)(dots + j), a);
        _mm256_storeu_si256((__m256i *)(dots + j + 4), b);
    }
}

EXPFAM_AVX2 static void expfam_sign_add_real_avx2(const uint64_t *words, const double *v, ptrdiff_t n, double *dots) {
    const __m256i shifts = _mm256_setr_epi64x(63, 62, 61, 60);
    const __m256d sign = _mm256_set1_pd(-0.0);
    for (int j = 0; j < 64; j += 16) {
        __m256d a = _mm256_loadu_pd(dots + j), b = _mm256_loadu_pd(dots + j + 4);
        __m256d c = _mm256_loadu_pd(dots + j + 8), d = _mm256_loadu_pd(dots + j + 12);
        for (ptrdiff_t i = 0; i < n; i++) { /* complement of bit j + lane, moved to the sign bit */
            const __m256i word = _mm256_sllv_epi64(_mm256_set1_epi64x((int64_t)(~words[i] >> j)), shifts);
            const __m256d add = _mm256_set1_pd(v[i]);
#define EXPFAM_TURN(by) _mm256_xor_pd(add, _mm256_and_pd(sign, _mm256_castsi256_pd(by)))
            a = _mm256_add_pd(a, EXPFAM_TURN(word));
            b = _mm256_add_pd(b, EXPFAM_TURN(_mm256_sllv_epi64(_mm256_set1_epi64x((int64_t)(~words[i] >> j >> 4)), shifts)));
            c = _mm256_add_pd(c, EXPFAM_TURN(_mm256_sllv_epi64(_mm256_set1_epi64x((int64_t)(~words[i] >> j >> 8)), shifts)));
            d = _mm256_add_pd(d, EXPFAM_TURN(_mm256_sllv_epi64(_mm256_set1_epi64x((int64_t)(~words[i] >> j >> 12)), shifts)));
#undef EXPFAM_TURN
        }
        _mm256_storeu_pd(dots + j, a);
        _mm256_storeu_pd(dots + j + 4, b);
        _mm256_storeu_pd(dots + j + 8, c);
        _mm256_storeu_pd(dots + j + 12, d);
    }
}

EXPFAM_AVX512 static void expfam_sign_add_32_avx512(const uint64_t *words, const uint32_t *v, ptrdiff_t n, uint32_t *dots) {
    __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a, all = a;
    for (ptrdiff_t i = 0; i < n; i++) {
        const uint64_t word = words[i];
        const __m512i add = _mm512_set1_epi32((int32_t)v[i]);
        all = _mm512_add_epi32(all, add);
        a = _mm512_mask_add_epi32(a, (__mmask16)word, a, add);
        b = _mm512_mask_add_epi32(b, (__mmask16)(word >> 16), b, add);
        c = _mm512_mask_add_epi32(c, (__mmask16)(word >> 32), c, add);
        d = _mm512_mask_add_epi32(d, (__mmask16)(word >> 48), d, add);
    }
#define EXPFAM_STORE(x, at)                                                                                 \
    _mm512_storeu_si512(dots + at, _mm512_add_epi32(_mm512_loadu_si512(dots + at),                          \
                                                    _mm512_sub_epi32(_mm512_add_epi32(x, x), all)))
    EXPFAM_STORE(a, 0);
    EXPFAM_STORE(b, 16);
    EXPFAM_STORE(c, 32);
    EXPFAM_STORE(d, 48);
#undef EXPFAM_STORE
}

EXPFAM_AVX512 static void expfam_sign_add_64_avx512(const uint64_t *words, const uint64_t *v, ptrdiff_t n, uint64_t *dots) {
    for (int j = 0; j < 64; j += 32) {
        __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a, all = a;
        for (ptrdiff_t i = 0; i < n; i++) {
            const uint32_t word = (uint32_t)(words[i] >> j);
            const __m512i add = _mm512_set1_epi64((int64_t)v[i]);
            all = _mm512_add_epi64(all, add);
            a = _mm512_mask_add_epi64(a, (__mmask8)word, a, add);
            b = _mm512_mask_add_epi64(b, (__mmask8)(word >> 8), b, add);
            c = _mm512_mask_add_epi64(c, (__mmask8)(word >> 16), c, add);
            d = _mm512_mask_add_epi64(d, (__mmask8)(word >> 24), d, add);
        }
#define EXPFAM_STORE(x, at)                                                                                 \
    _mm512_storeu_si512(dots + j + at, _mm512_add_epi64(_mm512_loadu_si512(dots + j + at),                  \
                                                        _mm512_sub_epi64(_mm512_add_epi64(x, x), all)))
        EXPFAM_STORE(a, 0);
        EXPFAM_STORE(b, 8);
        EXPFAM_STORE(c, 16);
        EXPFAM_STORE(d, 24);
#undef EXPFAM_STORE
    }
}

EXPFAM_AVX512 static void expfam_sign_add_real_avx512(const uint64_t *words, const double *v, ptrdiff_t n, double *dots) {
    for (int j = 0; j < 64; j += 32) {
        __m512d a = _mm512_loadu_pd(dots + j), b = _mm512_loadu_pd(dots + j + 8);
        __m512d c = _mm512_loadu_pd(dots + j + 16), d = _mm512_loadu_pd(dots + j + 24);
        for (ptrdiff_t i = 0; i < n; i++) {
            const uint32_t word = (uint32_t)(words[i] >> j);
            const __m512d plus = _mm512_set1_pd(v[i]), minus = _mm512_set1_pd(-v[i]);
            a = _mm512_add_pd(a, _mm512_mask_blend_pd((__mmask8)word, minus, plus));
            b = _mm512_add_pd(b, _mm512_mask_blend_pd((__mmask8)(word >> 8), minus, plus));
            c = _mm512_add_pd(c, _mm512_mask_blend_pd((__mmask8)(word >> 16), minus, plus));
            d = _mm512_add_pd(d, _mm512_mask_blend_pd((__mmask8)(word >> 24), minus, plus));
        }
        _mm512_storeu_pd(dots + j, a);
        _mm512_storeu_pd(dots + j + 8, b);
        _mm512_storeu_pd(dots + j + 16, c);
        _mm512_storeu_pd(dots + j + 24, d);
    }
}
#endif
#define EXPFAM_WRITTEN(NAME, TARGET) /* its instances are written above */
EXPFAM_INSTANCES(EXPFAM_WRITTEN, void, expfam_sign_add_32, (const uint64_t *, const uint32_t *, ptrdiff_t, uint32_t *))
EXPFAM_INSTANCES(EXPFAM_WRITTEN, void, expfam_sign_add_64, (const uint64_t *, const uint64_t *, ptrdiff_t, uint64_t *))
EXPFAM_INSTANCES(EXPFAM_WRITTEN, void, expfam_sign_add_real, (const uint64_t *, const double *, ptrdiff_t, double *))

/* dots[t] += sum_i table[byte t of words[i]] v[i], t < 8: entries are quantiles, not signs. */
#define EXPFAM_BYTE_ADD(NAME, TARGET, TYPE)                                                                 \
    TARGET EXPFAM_UNFUSED static void NAME(const uint64_t *words, const TYPE *v, const TYPE *table, ptrdiff_t n, \
                                           TYPE *dots) {                                                    \
        EXPFAM_UNFUSED_BODY                                                                                 \
        for (ptrdiff_t i = 0; i < n; i++)                                                                   \
            for (int t = 0; t < 8; t++) dots[t] += table[words[i] >> (8 * t) & 255] * v[i];                 \
    }
#define EXPFAM_BYTE_ADD_32(NAME, TARGET) EXPFAM_BYTE_ADD(NAME, TARGET, uint32_t)
#define EXPFAM_BYTE_ADD_64(NAME, TARGET) EXPFAM_BYTE_ADD(NAME, TARGET, uint64_t)
#define EXPFAM_BYTE_ADD_REAL(NAME, TARGET) EXPFAM_BYTE_ADD(NAME, TARGET, double)
EXPFAM_INSTANCES(EXPFAM_BYTE_ADD_32, void, expfam_byte_add_32,
                 (const uint64_t *, const uint32_t *, const uint32_t *, ptrdiff_t, uint32_t *))
EXPFAM_INSTANCES(EXPFAM_BYTE_ADD_64, void, expfam_byte_add_64,
                 (const uint64_t *, const uint64_t *, const uint64_t *, ptrdiff_t, uint64_t *))
EXPFAM_INSTANCES(EXPFAM_BYTE_ADD_REAL, void, expfam_byte_add_real,
                 (const uint64_t *, const double *, const double *, ptrdiff_t, double *))

/* Return the word whose bit j says dots[j] > centre[j]; if both are equal, it is bit j of `tie`. */
#define EXPFAM_SIGN_BITS(NAME, TARGET, TYPE)                                                                \
    TARGET static uint64_t NAME(const TYPE *dots, const TYPE *centre, uint64_t tie) {                       \
        uint64_t above = 0, equal = 0;                                                                      \
        EXPFAM_PRAGMA(omp simd reduction(| : above, equal))                                                 \
        for (int j = 0; j < 64; j++) {                                                                      \
            above |= dots[j] > centre[j] ? UINT64_C(1) << j : 0;                                            \
            equal |= dots[j] == centre[j] ? UINT64_C(1) << j : 0;                                           \
        }                                                                                                   \
        return above | (equal & tie);                                                                       \
    }
#define EXPFAM_SIGN_BITS_32(NAME, TARGET) EXPFAM_SIGN_BITS(NAME, TARGET, int32_t)
#define EXPFAM_SIGN_BITS_64(NAME, TARGET) EXPFAM_SIGN_BITS(NAME, TARGET, int64_t)
#define EXPFAM_SIGN_BITS_REAL(NAME, TARGET) EXPFAM_SIGN_BITS(NAME, TARGET, double)
EXPFAM_INSTANCES(EXPFAM_SIGN_BITS_32, uint64_t, expfam_sign_bits_32, (const int32_t *, const int32_t *, uint64_t))
EXPFAM_INSTANCES(EXPFAM_SIGN_BITS_64, uint64_t, expfam_sign_bits_64, (const int64_t *, const int64_t *, uint64_t))
EXPFAM_INSTANCES(EXPFAM_SIGN_BITS_REAL, uint64_t, expfam_sign_bits_real, (const double *, const double *, uint64_t))

/* Compute the distances h[0..63] of one code to the 64 codes whose words p are at planes + p stride. */
EXPFAM_INLINE void expfam_distances_base(const uint64_t *planes, ptrdiff_t stride, const uint64_t *code, ptrdiff_t n_words,
                                         int32_t *h) {
    for (int i = 0; i < 64; i++) h[i] = (int32_t)expfam_popcount1(planes[i] ^ code[0]);
    for (ptrdiff_t p = 1; p < n_words; p++)
        for (int i = 0; i < 64; i++) h[i] += (int32_t)expfam_popcount1(planes[p * stride + i] ^ code[p]);
}
#if EXPFAM_DISPATCH
/* Look up nibbles in a register (Mula, Kurz, Lemire 2018): twice as fast as one popcount for each word. A byte can hold
 * the sum of up to 31 words of code. */
EXPFAM_AVX2 EXPFAM_INLINE void expfam_distances_avx2(const uint64_t *planes, ptrdiff_t stride, const uint64_t *code,
                                                     ptrdiff_t n_words, int32_t *h) {
    const __m256i bits = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2,
                                          3, 3, 4);
    const __m256i low = _mm256_set1_epi8(15), order = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
    for (int i = 0; i < 64; i += 8) {
        __m256i total = _mm256_setzero_si256();
        for (ptrdiff_t first = 0; first < n_words; first += 31) {
            const ptrdiff_t last = n_words - first < 31 ? n_words : first + 31;
            __m256i a = _mm256_setzero_si256(), b = a;
            for (ptrdiff_t p = first; p < last; p++) {
                const __m256i *at = (const __m256i *)(planes + p * stride + i), word = _mm256_set1_epi64x((int64_t)code[p]);
                const __m256i x = _mm256_xor_si256(_mm256_loadu_si256(at), word);
                const __m256i y = _mm256_xor_si256(_mm256_loadu_si256(at + 1), word);
                a = _mm256_add_epi8(a, _mm256_shuffle_epi8(bits, _mm256_and_si256(x, low)));
                b = _mm256_add_epi8(b, _mm256_shuffle_epi8(bits, _mm256_and_si256(y, low)));
                a = _mm256_add_epi8(a, _mm256_shuffle_epi8(bits, _mm256_and_si256(_mm256_srli_epi16(x, 4), low)));
                b = _mm256_add_epi8(b, _mm256_shuffle_epi8(bits, _mm256_and_si256(_mm256_srli_epi16(y, 4), low)));
            }
            a = _mm256_sad_epu8(a, _mm256_setzero_si256());
            b = _mm256_sad_epu8(b, _mm256_setzero_si256());
            total = _mm256_add_epi32(total, _mm256_or_si256(a, _mm256_slli_epi64(b, 32)));
        }
        _mm256_storeu_si256((__m256i *)(h + i), _mm256_permutevar8x32_epi32(total, order)); /* from 0 4 1 5 2 6 3 7 */
    }
}
EXPFAM_AVX512_VPOPCNT EXPFAM_INLINE __m512i expfam_differ_avx512(const uint64_t *plane, uint64_t word) {
    return _mm512_popcnt_epi64(_mm512_xor_si512(_mm512_loadu_si512(plane), _mm512_set1_epi64((int64_t)word)));
}
/* Compute distances minus `first`. Sums are narrowed at the end: one shuffle for sixteen codes, not for each word. */
EXPFAM_AVX512_VPOPCNT EXPFAM_INLINE void expfam_count_avx512(const uint64_t *planes, ptrdiff_t stride, const uint64_t *code,
                                                             ptrdiff_t n_words, ptrdiff_t first, __m512i *h) {
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    __m512i sums[8];
    for (int j = 0; j < 8; j++) sums[j] = expfam_differ_avx512(planes + 8 * j, code[0]);
    for (ptrdiff_t p = 1; p < n_words; p++)
        for (int j = 0; j < 8; j++)
            sums[j] = _mm512_add_epi64(sums[j], expfam_differ_avx512(planes + p * stride + 8 * j, code[p]));
    for (int j = 0; j < 4; j++) {
        const __m512i narrow = _mm512_permutex2var_epi32(sums[2 * j], even, sums[2 * j + 1]);
        h[j] = _mm512_sub_epi32(narrow, _mm512_set1_epi32((int)first));
    }
}
EXPFAM_AVX512_VPOPCNT EXPFAM_INLINE void expfam_distances_avx512(const uint64_t *planes, ptrdiff_t stride, const uint64_t *code,
                                                                 ptrdiff_t n_words, int32_t *h) {
    __m512i wide[4];
    expfam_count_avx512(planes, stride, code, n_words, 0, wide);
    memcpy(h, wide, sizeof wide);
}
#endif

#define EXPFAM_HAMMING(NAME, TARGET, DISTANCES)                                                             \
    TARGET static void NAME(const uint64_t *planes, ptrdiff_t stride, const uint64_t *code, ptrdiff_t n_words, \
                            int32_t *out, ptrdiff_t n) {                                                    \
        int32_t h[64];                                                                                      \
        for (ptrdiff_t b = 0; b < n; b += 64) {                                                             \
            DISTANCES(planes + b, stride, code, n_words, h);                                                \
            memcpy(out + b, h, (size_t)(n - b < 64 ? n - b : 64) * sizeof *h);                              \
        }                                                                                                   \
    }
EXPFAM_POPCOUNT_INSTANCES(EXPFAM_HAMMING, void, expfam_hamming,
                          (const uint64_t *, ptrdiff_t, const uint64_t *, ptrdiff_t, int32_t *, ptrdiff_t), expfam_distances)

/* cosines[i] = table[h_i], i < 64. Compilers do not generate gathers here; both ways load the same bits. */
EXPFAM_INLINE void expfam_cosines_base(const uint64_t *planes, ptrdiff_t stride, const uint64_t *code, ptrdiff_t n_words,
                                       const float *table, float *cosines) {
    int32_t h[64];
    expfam_distances_base(planes, stride, code, n_words, h);
    for (int i = 0; i < 64; i++) cosines[i] = table[h[i]];
}
#if EXPFAM_DISPATCH
EXPFAM_AVX2 EXPFAM_INLINE void expfam_cosines_avx2(const uint64_t *planes, ptrdiff_t stride, const uint64_t *code,
                                                   ptrdiff_t n_words, const float *table, float *cosines) {
    int32_t h[64];
    expfam_distances_avx2(planes, stride, code, n_words, h);
    for (int i = 0; i < 64; i += 8)
        _mm256_storeu_ps(cosines + i, _mm256_i32gather_ps(table, _mm256_loadu_si256((const __m256i *)(h + i)), 4));
}
/* Distances of unrelated vectors of many dimensions have mean l/2 and standard deviation sqrt(l)/2. Up to 256 bits,
 * four standard deviations are covered by the 64 middle entries of the table, which fit in four registers. A block with
 * a distance outside of them uses gathers. */
EXPFAM_AVX512_VPOPCNT EXPFAM_INLINE void expfam_cosines_avx512(const uint64_t *planes, ptrdiff_t stride, const uint64_t *code,
                                                               ptrdiff_t n_words, const float *table, float *cosines) {
    const ptrdiff_t first = 32 * (n_words - 1);
    const float *middle = table + first;
    __m512i h[4];
    expfam_count_avx512(planes, stride, code, n_words, first, h);
    const __m512i any = _mm512_or_si512(_mm512_or_si512(h[0], h[1]), _mm512_or_si512(h[2], h[3]));
    if (n_words > 4 || _mm512_test_epi32_mask(any, _mm512_set1_epi32(~63))) {
        for (int j = 0; j < 4; j++) _mm512_storeu_ps(cosines + 16 * j, _mm512_i32gather_ps(h[j], middle, 4));
        return;
    }
    const __m512 a = _mm512_loadu_ps(middle), b = _mm512_loadu_ps(middle + 16);
    const __m512 c = _mm512_loadu_ps(middle + 32), d = _mm512_loadu_ps(middle + 48);
    for (int j = 0; j < 4; j++) {
        const __mmask16 upper = _mm512_test_epi32_mask(h[j], _mm512_set1_epi32(32));
        const __m512 low = _mm512_permutex2var_ps(a, h[j], b), high = _mm512_permutex2var_ps(c, h[j], d);
        _mm512_storeu_ps(cosines + 16 * j, _mm512_mask_blend_ps(upper, low, high));
    }
}
#endif

/* scores[k] = norm norms[k] table[h_k] (+ factor slopes[k]) + bias[k] for k < n, and -inf up to the next multiple of
 * 64. Return the largest. `slopes` may be NULL. */
#define EXPFAM_SIGN_SCORES(NAME, TARGET, COSINES)                                                           \
    TARGET EXPFAM_UNFUSED static float NAME(const uint64_t *planes, ptrdiff_t stride, const uint64_t *code, \
                                            ptrdiff_t n_words, const float *table, const float *norms, float norm, \
                                            const float *slopes, float factor, const float *bias, float *scores, \
                                            ptrdiff_t n) {                                                  \
        EXPFAM_UNFUSED_BODY                                                                                 \
        float cosines[64], tops[16], last[64];                                                              \
        for (int j = 0; j < 16; j++) tops[j] = -INFINITY;                                                   \
        for (int i = 0; i < 64; i++) last[i] = -INFINITY; /* bias of the last block, padded */              \
        for (ptrdiff_t b = 0; b < n; b += 64) {                                                             \
            const ptrdiff_t m = n - b < 64 ? n - b : 64;                                                    \
            const float *add = bias + b;                                                                    \
            float *row = scores + b;                                                                        \
            COSINES(planes + b, stride, code, n_words, table, cosines);                                     \
            EXPFAM_SIMD                                                                                     \
            for (int i = 0; i < 64; i++) row[i] = norm * norms[b + i] * cosines[i]; /* norms are padded */  \
            if (slopes) {                                                                                   \
                EXPFAM_SIMD                                                                                 \
                for (int i = 0; i < 64; i++) row[i] += factor * slopes[b + i];                              \
            }                                                                                               \
            if (m < 64) {                                                                                   \
                memcpy(last, add, (size_t)m * sizeof *add);                                                 \
                add = last;                                                                                 \
            }                                                                                               \
            EXPFAM_SIMD                                                                                     \
            for (int i = 0; i < 64; i++) row[i] += add[i];                                                  \
            for (int i = 0; i < 64; i += 16) {                                                              \
                EXPFAM_SIMD                                                                                 \
                for (int j = 0; j < 16; j++) tops[j] = row[i + j] > tops[j] ? row[i + j] : tops[j];         \
            }                                                                                               \
        }                                                                                                   \
        for (int half = 8; half; half /= 2) {                                                               \
            for (int j = 0; j < half; j++) tops[j] = tops[j + half] > tops[j] ? tops[j + half] : tops[j];   \
        }                                                                                                   \
        return tops[0];                                                                                     \
    }
EXPFAM_POPCOUNT_INSTANCES(EXPFAM_SIGN_SCORES, float, expfam_sign_scores,
                          (const uint64_t *, ptrdiff_t, const uint64_t *, ptrdiff_t, const float *, const float *, float,
                           const float *, float, const float *, float *, ptrdiff_t), expfam_cosines)

/* x := exp(max(x - shift, -80)), 0 where x is -inf. The sum of each block of 64 is written to `sums`; the total is
 * returned. The exponential has a relative error of 8e-5. The draw is exact nevertheless: its law is these weights. */
#define EXPFAM_SIGN_WEIGHTS(NAME, TARGET)                                                                   \
    TARGET EXPFAM_UNFUSED static double NAME(float *x, float shift, float *sums, ptrdiff_t n_blocks) {      \
        EXPFAM_UNFUSED_BODY                                                                                 \
        const float low = shift - 80.0f; /* a variable: a constant bound becomes a branch, and nothing vectorises */ \
        double total = 0.0;                                                                                 \
        for (ptrdiff_t b = 0; b < n_blocks; b++) {                                                          \
            float lanes[EXPFAM_LANES_SIGN], *row = x + 64 * b;                                              \
            EXPFAM_SIMD                                                                                     \
            for (int i = 0; i < 64; i++) {                                                                  \
                const float u = ((row[i] < low ? low : row[i]) - shift) * 1.44269504f;                      \
                const float whole = u + 12582912.0f, f = u - (whole - 12582912.0f);                         \
                const float w = ((5.51714178e-2f * f + 2.42611170e-1f) * f + 6.93261056e-1f) * f + 9.99928073e-1f; /* 2^f */ \
                uint32_t bits, steps, before;                                                               \
                memcpy(&before, row + i, 4);                                                                \
                memcpy(&steps, &whole, 4);                                                                  \
                memcpy(&bits, &w, 4);                                                                       \
                bits += steps << 23; /* 12582912 = 0x4b400000 is 0 modulo 2^9 */                            \
                bits &= before == UINT32_C(0xff800000) ? 0 : UINT32_C(0xffffffff); /* -inf; a NaN stays a NaN */ \
                memcpy(row + i, &bits, 4);                                                                  \
            }                                                                                               \
            EXPFAM_SIMD                                                                                     \
            for (int j = 0; j < EXPFAM_LANES_SIGN; j++)                                                     \
                lanes[j] = (row[j] + row[j + 16]) + (row[j + 32] + row[j + 48]);                            \
            EXPFAM_SIMD                                                                                     \
            for (int j = 0; j < 8; j++) lanes[j] += lanes[j + 8];                                           \
            EXPFAM_SIMD                                                                                     \
            for (int j = 0; j < 4; j++) lanes[j] += lanes[j + 4];                                           \
            sums[b] = (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);                                        \
            total += sums[b];                                                                               \
        }                                                                                                   \
        return total;                                                                                       \
    }
EXPFAM_INSTANCES(EXPFAM_SIGN_WEIGHTS, double, expfam_sign_weights, (float *, float, float *, ptrdiff_t))

/* Draw an index with the weights of expfam_sign_weights by one uniform number in [0, 1): first a block, then in it. */
EXPFAM_UNUSED static ptrdiff_t expfam_sign_pick(const float *w, const float *sums, double total, double uniform, ptrdiff_t n) {
    double left = uniform * total;
    ptrdiff_t b = 0, last = (n - 1) / 64, i, stop;
    while (b < last && left >= sums[b]) left -= sums[b++];
    stop = 64 * b + 64 < n ? 64 * b + 64 : n;
    for (i = 64 * b; i < stop - 1 && left >= w[i]; i++) left -= w[i];
    /* rounding may lead past the last positive weight: step back to it */
    while (i > 0 && w[i] == 0.0f) i--;
    if (w[i] == 0.0f) while (i < n - 1 && w[i] == 0.0f) i++;
    return i;
}
/* ---- end of sign codes ---- */
/* ---- weighted min-hash ---- */

/* Process one feature of weight exp(log_x) for n hashes: `draws` has r, b and log c of each (Ioffe 2010). For each hash
 * the smallest log a = log c - r (t - b + 1), its t = floor(log_x / r + b) and its feature are kept. */
#define EXPFAM_ICWS(NAME, TARGET)                                                                              \
    TARGET static void NAME(const double *draws, double log_x, double feature, double *best, double *level,    \
                            double *winner, ptrdiff_t n) {                                                     \
        const double *r = draws, *b = draws + n, *log_c = draws + 2 * n;                                       \
        EXPFAM_SIMD                                                                                            \
        for (ptrdiff_t h = 0; h < n; h++) {                                                                    \
            double t = floor(log_x / r[h] + b[h]);                                                             \
            double a = log_c[h] - r[h] * (t - b[h] + 1.0), old = best[h], old_t = level[h], old_j = winner[h]; \
            best[h] = a < old ? a : old;                                                                       \
            level[h] = a < old ? t : old_t;                                                                    \
            winner[h] = a < old ? feature : old_j;                                                             \
        }                                                                                                      \
    }
EXPFAM_INSTANCES(EXPFAM_ICWS, void, expfam_icws,
                 (const double *, double, double, double *, double *, double *, ptrdiff_t))
/* ---- end of weighted min-hash ---- */
/* ---- geometry in single precision ----
 * Squared Euclidean distances are computed from differences, because the expansion into norms cancels. Sums run in
 * float over at most 4096 terms, then in double. */
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
/* A tile stores sixteen vectors coordinate by coordinate: one pass gives sixteen distances without a sum across lanes,
 * and four tiles hide the latency of the multiply-add. */
#define EXPFAM_TILE 16
#if defined(__GNUC__) || defined(__clang__)
typedef float expfam_lanes __attribute__((vector_size(64), aligned(4), may_alias));
#define EXPFAM_TILE_SUMS(COUNT)                                                                             \
    expfam_lanes sum[COUNT], gap[COUNT];                                                                    \
    for (int u = 0; u < COUNT; u++) sum[u] = (expfam_lanes){0};                                             \
    for (ptrdiff_t j = 0; j < n_features; j++)                                                              \
        for (int u = 0; u < COUNT; u++) {                                                                   \
            gap[u] = *(const expfam_lanes *)(tiles + (u * n_features + j) * EXPFAM_TILE) - q[j];            \
            sum[u] += gap[u] * gap[u];                                                                      \
        }                                                                                                   \
    for (int u = 0; u < COUNT; u++) *(expfam_lanes *)(squares + u * EXPFAM_TILE) = sum[u];
#else
#define EXPFAM_TILE_SUMS(COUNT)                                                                             \
    for (int u = 0; u < COUNT * EXPFAM_TILE; u++) squares[u] = 0.0f;                                        \
    for (ptrdiff_t j = 0; j < n_features; j++)                                                              \
        for (int u = 0; u < COUNT; u++)                                                                     \
            for (int i = 0; i < EXPFAM_TILE; i++) {                                                         \
                float gap = tiles[(u * n_features + j) * EXPFAM_TILE + i] - q[j];                           \
                squares[u * EXPFAM_TILE + i] += gap * gap;                                                  \
            }
#endif

/* Move the vectors of some tiles to centre `label` at q where it is nearer than near[i]; return the first vector with
 * the then largest distance. Lanes without a vector have near = -1. */
#define EXPFAM_TILE_RELAX(NAME, TARGET)                                                                     \
    TARGET static ptrdiff_t NAME(const float *tiles, ptrdiff_t n_tiles, const float *q, ptrdiff_t n_features, \
                                 int32_t label, float *near, int32_t *owner) {                              \
        float worst = -1.0f, squares[4 * EXPFAM_TILE];                                                      \
        const float *first = near;                                                                          \
        ptrdiff_t far = 0;                                                                                  \
        while (n_tiles > 0) {                                                                               \
            int count = n_tiles < 4 ? (int)n_tiles : 4, nearer = 0, m;                                      \
            float last = -1.0f;                                                                             \
            if (count == 4) { EXPFAM_TILE_SUMS(4) }                                                         \
            else if (count == 3) { EXPFAM_TILE_SUMS(3) }                                                    \
            else if (count == 2) { EXPFAM_TILE_SUMS(2) }                                                    \
            else { EXPFAM_TILE_SUMS(1) }                                                                    \
            m = count * EXPFAM_TILE;                                                                        \
            for (int i = 0; i < m; i++) nearer |= squares[i] < near[i] * near[i] * 1.000001f;               \
            if (nearer)                                                                                     \
                for (int i = 0; i < m; i++) {                                                               \
                    float d = sqrtf(squares[i]);                                                            \
                    owner[i] = d < near[i] ? label : owner[i];                                              \
                    near[i] = d < near[i] ? d : near[i];                                                    \
                }                                                                                           \
            EXPFAM_SIMD_MAX(last)                                                                           \
            for (int i = 0; i < m; i++) last = near[i] > last ? near[i] : last;                             \
            if (last > worst) {                                                                             \
                worst = last;                                                                               \
                far = near - first;                                                                         \
            }                                                                                               \
            near += m, owner += m, tiles += m * n_features, n_tiles -= count;                               \
        }                                                                                                   \
        while (first[far] != worst) far++;                                                                  \
        return far;                                                                                         \
    }
EXPFAM_INSTANCES(EXPFAM_TILE_RELAX, ptrdiff_t, expfam_tile_relax,
                 (const float *, ptrdiff_t, const float *, ptrdiff_t, int32_t, float *, int32_t *))

/* Write the vectors row[0..15] as one tile. */
EXPFAM_UNUSED static void expfam_tile_fill(const float *const *row, ptrdiff_t n_features, float *tile) {
    for (ptrdiff_t j = 0; j < n_features; j++)
        for (int i = 0; i < EXPFAM_TILE; i++) tile[j * EXPFAM_TILE + i] = row[i][j];
}
/* ---- end of geometry ---- */
/* ---- logs of counts as bytes or floats ----
 * Rows of a table of logs are added for the entries of a datum; a row has one entry for each column, and n is a
 * multiple of 64. For a word that occurs more than once, the byte of each column is looked up in the word's own table
 * of 256 sums: first their low bytes, then their high bytes; the sum of byte 0 is 0. All sums are integers below 2^16,
 * and no product is fused with a sum, so all instances give bitwise the same results. Columns are processed in ranges
 * whose sums stay in the nearest cache. */
#define EXPFAM_STRETCH 2048
EXPFAM_INLINE void expfam_look_up_base(const uint8_t *row, const uint8_t *table, uint16_t *sums, ptrdiff_t m) {
    for (ptrdiff_t j = 0; j < m; j += 8) {
        uint64_t eight;
        memcpy(&eight, row + j, 8);
        if (eight) /* most words occur in few clusters */
            for (int i = 0; i < 8; i++) sums[j + i] = (uint16_t)(sums[j + i] + table[row[j + i]] + 256 * table[256 + row[j + i]]);
    }
}
EXPFAM_INLINE void expfam_widen_base(const uint8_t *a, const uint8_t *b, const uint8_t *c, const uint8_t *d, uint16_t *sums,
                                     ptrdiff_t m) {
    EXPFAM_SIMD
    for (ptrdiff_t j = 0; j < m; j++) sums[j] = (uint16_t)(sums[j] + a[j] + b[j] + c[j] + d[j]);
}
#if EXPFAM_DISPATCH
/* Written out, because compilers split registers of bytes into halves. */
#define EXPFAM_WIDE_256(row) _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(row)))
EXPFAM_AVX2 EXPFAM_INLINE void expfam_widen_avx2(const uint8_t *a, const uint8_t *b, const uint8_t *c, const uint8_t *d,
                                                 uint16_t *sums, ptrdiff_t m) {
    for (ptrdiff_t j = 0; j < m; j += 16) {
        const __m256i ab = _mm256_add_epi16(EXPFAM_WIDE_256(a + j), EXPFAM_WIDE_256(b + j));
        const __m256i cd = _mm256_add_epi16(EXPFAM_WIDE_256(c + j), EXPFAM_WIDE_256(d + j));
        const __m256i old = _mm256_loadu_si256((const __m256i *)(sums + j));
        _mm256_storeu_si256((__m256i *)(sums + j), _mm256_add_epi16(old, _mm256_add_epi16(ab, cd)));
    }
}
/* Look up sixteen entries at a time: bytes with the right high four bits select by their low four bits. */
EXPFAM_AVX2 EXPFAM_INLINE void expfam_look_up_avx2(const uint8_t *row, const uint8_t *table, uint16_t *sums, ptrdiff_t m) {
    for (ptrdiff_t j = 0; j < m; j += 32) {
        const __m256i byte = _mm256_loadu_si256((const __m256i *)(row + j));
        __m256i low = _mm256_setzero_si256(), high = low, *out = (__m256i *)(sums + j);
        const int parts = _mm256_movemask_epi8(byte) ? 16 : 8; /* counts of a hundred and more are rare */
        if (_mm256_testz_si256(byte, byte)) continue;
        for (int part = 0; part < parts; part++) { /* other bytes become larger than 127, for which a shuffle gives 0 */
            const __m256i own = _mm256_xor_si256(byte, _mm256_set1_epi8((char)(16 * part)));
            const __m256i at = _mm256_adds_epu8(own, _mm256_set1_epi8(112));
            const __m128i *from = (const __m128i *)(table + 16 * part);
            low = _mm256_or_si256(low, _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(from)), at));
            high = _mm256_or_si256(high, _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(from + 16)), at));
        }
        const __m256i a = _mm256_unpacklo_epi8(low, high), b = _mm256_unpackhi_epi8(low, high); /* 0-7 16-23, 8-15 24-31 */
        const __m256i c = _mm256_permute2x128_si256(a, b, 0x20), d = _mm256_permute2x128_si256(a, b, 0x31);
        _mm256_storeu_si256(out, _mm256_add_epi16(_mm256_loadu_si256(out), c));
        _mm256_storeu_si256(out + 1, _mm256_add_epi16(_mm256_loadu_si256(out + 1), d));
    }
}
#endif
/* Sum columns first..first + m - 1; if the last four rows are not complete, a row of zeros is used. */
#define EXPFAM_SUM_BYTES(WIDEN, LOOK_UP)                                                                             \
    static const uint8_t none[EXPFAM_STRETCH];                                                              \
    memset(sums, 0, m * sizeof(uint16_t));                                                                  \
    for (ptrdiff_t r = 0; r < n_rows; r += 4)                                                               \
        WIDEN(rows[r] + first, r + 1 < n_rows ? rows[r + 1] + first : none,                                 \
              r + 2 < n_rows ? rows[r + 2] + first : none, r + 3 < n_rows ? rows[r + 3] + first : none, sums, m); \
    for (ptrdiff_t r = 0; r < n_repeated; r++) LOOK_UP(repeated[r] + first, tables[r], sums, m);
EXPFAM_INLINE void expfam_sum_bytes_base(const uint8_t *const *rows, ptrdiff_t n_rows, const uint8_t *const *repeated,
                                         const uint8_t *const *tables, ptrdiff_t n_repeated, ptrdiff_t first, ptrdiff_t m,
                                         uint16_t *sums) {
    EXPFAM_SUM_BYTES(expfam_widen_base, expfam_look_up_base)
}
#if EXPFAM_DISPATCH
EXPFAM_AVX2 EXPFAM_INLINE void expfam_sum_bytes_avx2(const uint8_t *const *rows, ptrdiff_t n_rows,
                                                     const uint8_t *const *repeated, const uint8_t *const *tables,
                                                     ptrdiff_t n_repeated, ptrdiff_t first, ptrdiff_t m, uint16_t *sums) {
    EXPFAM_SUM_BYTES(expfam_widen_avx2, expfam_look_up_avx2)
}
#define EXPFAM_AVX512_VBMI                                                                                  \
    __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,avx512vbmi,avx2,fma,prefer-vector-width=512")))
/* Look up 64 entries of the low or the high bytes of a table; k marks bytes from 128 on. */
EXPFAM_AVX512_VBMI EXPFAM_INLINE __m512i expfam_look_up_64(const uint8_t *table, __m512i x, __mmask64 k) {
    const __m512i low = _mm512_permutex2var_epi8(_mm512_loadu_si512(table), x, _mm512_loadu_si512(table + 64));
    if (!k) return low; /* counts of a hundred and more are rare */
    return _mm512_mask_blend_epi8(
        k, low, _mm512_permutex2var_epi8(_mm512_loadu_si512(table + 128), x, _mm512_loadu_si512(table + 192)));
}
/* Two bytes are read as x = even + 256 odd: the sums of x and of odd = x >> 8 give the sum of even, without separating
 * the bytes. High bytes of tables are multiplied by 256, so that only the even part of x remains. All modulo 2^16. */
EXPFAM_AVX512_VBMI EXPFAM_INLINE void expfam_sum_lines(const uint8_t *const *rows, ptrdiff_t n_rows,
                                                       const uint8_t *const *repeated, const uint8_t *const *tables,
                                                       ptrdiff_t n_repeated, ptrdiff_t at, uint16_t *sums, const int lines) {
    __m512i both[4], odd[4], high_both[4], high_odd[4], x;
    const __m512i left = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6, 37, 5,
                                          36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
    const __m512i right = _mm512_add_epi16(left, _mm512_set1_epi16(16));
    for (int t = 0; t < lines; t++) both[t] = odd[t] = high_both[t] = high_odd[t] = _mm512_setzero_si512();
    for (ptrdiff_t r = 0; r < n_rows; r++)
        for (int t = 0; t < lines; t++) {
            x = _mm512_loadu_si512(rows[r] + at + 64 * t);
            both[t] = _mm512_add_epi16(both[t], x);
            odd[t] = _mm512_add_epi16(odd[t], _mm512_srli_epi16(x, 8));
        }
    for (ptrdiff_t r = 0; r < n_repeated; r++)
        for (int t = 0; t < lines; t++) {
            const __m512i byte = _mm512_loadu_si512(repeated[r] + at + 64 * t);
            const __mmask64 k = _mm512_movepi8_mask(byte);
            x = expfam_look_up_64(tables[r], byte, k);
            both[t] = _mm512_add_epi16(both[t], x);
            odd[t] = _mm512_add_epi16(odd[t], _mm512_srli_epi16(x, 8));
            x = expfam_look_up_64(tables[r] + 256, byte, k);
            high_both[t] = _mm512_add_epi16(high_both[t], x);
            high_odd[t] = _mm512_add_epi16(high_odd[t], _mm512_srli_epi16(x, 8));
        }
    for (int t = 0; t < lines; t++) {
        __m512i even = _mm512_sub_epi16(both[t], _mm512_slli_epi16(odd[t], 8));
        even = _mm512_add_epi16(even, _mm512_slli_epi16(high_both[t], 8));
        odd[t] = _mm512_add_epi16(odd[t], _mm512_slli_epi16(high_odd[t], 8));
        _mm512_storeu_si512(sums + 64 * t, _mm512_permutex2var_epi16(even, left, odd[t]));
        _mm512_storeu_si512(sums + 64 * t + 32, _mm512_permutex2var_epi16(even, right, odd[t]));
    }
}
EXPFAM_AVX512_VBMI EXPFAM_INLINE void expfam_sum_bytes_avx512(const uint8_t *const *rows, ptrdiff_t n_rows,
                                                              const uint8_t *const *repeated, const uint8_t *const *tables,
                                                              ptrdiff_t n_repeated, ptrdiff_t first, ptrdiff_t m,
                                                              uint16_t *sums) {
    ptrdiff_t j = 0;
    for (; j + 256 <= m; j += 256) expfam_sum_lines(rows, n_rows, repeated, tables, n_repeated, first + j, sums + j, 4);
    for (; j < m; j += 64) expfam_sum_lines(rows, n_rows, repeated, tables, n_repeated, first + j, sums + j, 1);
}
#endif
#define EXPFAM_BYTE_SCORES(NAME, TARGET, SUM)                                                               \
    TARGET EXPFAM_UNFUSED static void NAME(const uint8_t *const *rows, ptrdiff_t n_rows, const uint8_t *const *repeated, \
                                           const uint8_t *const *tables, ptrdiff_t n_repeated, float step, float *scores, \
                                           ptrdiff_t n) {                                                   \
        EXPFAM_UNFUSED_BODY                                                                                 \
        uint16_t sums[EXPFAM_STRETCH];                                                                      \
        for (ptrdiff_t first = 0; first < n; first += EXPFAM_STRETCH) {                                     \
            ptrdiff_t m = n - first < EXPFAM_STRETCH ? n - first : EXPFAM_STRETCH;                          \
            SUM(rows, n_rows, repeated, tables, n_repeated, first, m, sums);                                \
            EXPFAM_SIMD                                                                                     \
            for (ptrdiff_t j = 0; j < m; j++) scores[first + j] += step * (float)sums[j];                   \
        }                                                                                                   \
    }
/* expfam_isa() for loops that look up bytes in registers: 2 only where vectors have VBMI. */
EXPFAM_UNUSED static int expfam_vbmi_isa(void) {
#if EXPFAM_DISPATCH
    int level = expfam_isa();
    if (level == 2 && !__builtin_cpu_supports("avx512vbmi")) level = 1;
    return level;
#else
    return 0;
#endif
}
/* As EXPFAM_INSTANCES; BODY takes one more argument, the written-out part of its instance. */
#if EXPFAM_DISPATCH
#define EXPFAM_VBMI_INSTANCES(BODY, result, name, arguments, part)                                          \
    BODY(name##_base, , part##_base) BODY(name##_avx2, EXPFAM_AVX2, part##_avx2)                            \
    BODY(name##_avx512, EXPFAM_AVX512_VBMI, part##_avx512)                                                  \
    EXPFAM_UNUSED static result (*name) arguments = name##_base;                                            \
    __attribute__((constructor)) static void name##_pick(void) {                                            \
        int level = expfam_vbmi_isa();                                                                      \
        name = level == 2 ? name##_avx512 : level == 1 ? name##_avx2 : name##_base;                         \
    }
#else
#define EXPFAM_VBMI_INSTANCES(BODY, result, name, arguments, part)                                          \
    BODY(name##_base, , part##_base) EXPFAM_UNUSED static result (*name) arguments = name##_base;
#endif
EXPFAM_VBMI_INSTANCES(EXPFAM_BYTE_SCORES, void, expfam_byte_scores,
                      (const uint8_t *const *, ptrdiff_t, const uint8_t *const *, const uint8_t *const *, ptrdiff_t, float,
                       float *, ptrdiff_t), expfam_sum_bytes)
/* out = (1 - part) a + part b, 0 < part < 1; -inf where both are. */
#define EXPFAM_BETWEEN(NAME, TARGET)                                                                        \
    TARGET EXPFAM_UNFUSED static void NAME(const float *a, const float *b, float part, float *out, ptrdiff_t n) { \
        EXPFAM_UNFUSED_BODY                                                                                 \
        const float rest = 1.0f - part;                                                                     \
        EXPFAM_SIMD                                                                                         \
        for (ptrdiff_t j = 0; j < n; j++) out[j] = rest * a[j] + part * b[j];                               \
    }
EXPFAM_INSTANCES(EXPFAM_BETWEEN, void, expfam_between, (const float *, const float *, float, float *, ptrdiff_t))

#define EXPFAM_FLOAT_ROWS(NAME, TARGET)                                                                     \
    TARGET static void NAME(const float *const *rows, ptrdiff_t n_rows, float *scores, ptrdiff_t n) {       \
        for (ptrdiff_t first = 0; first < n; first += EXPFAM_STRETCH) {                                     \
            ptrdiff_t m = n - first < EXPFAM_STRETCH ? n - first : EXPFAM_STRETCH, r = 0;                   \
            float *out = scores + first;                                                                    \
            for (; r + 3 < n_rows; r += 4) {                                                                \
                const float *a = rows[r] + first, *b = rows[r + 1] + first;                                 \
                const float *c = rows[r + 2] + first, *d = rows[r + 3] + first;                             \
                EXPFAM_SIMD                                                                                 \
                for (ptrdiff_t j = 0; j < m; j++) out[j] += (a[j] + b[j]) + (c[j] + d[j]);                  \
            }                                                                                               \
            for (; r < n_rows; r++) {                                                                       \
                const float *a = rows[r] + first;                                                           \
                EXPFAM_SIMD                                                                                 \
                for (ptrdiff_t j = 0; j < m; j++) out[j] += a[j];                                           \
            }                                                                                               \
        }                                                                                                   \
    }
EXPFAM_INSTANCES(EXPFAM_FLOAT_ROWS, void, expfam_float_rows, (const float *const *, ptrdiff_t, float *, ptrdiff_t))

#define EXPFAM_MAX_FLOAT(NAME, TARGET)                                                                      \
    TARGET static float NAME(const float *x, ptrdiff_t n) {                                                 \
        float best = -INFINITY;                                                                             \
        EXPFAM_SIMD_MAX(best)                                                                               \
        for (ptrdiff_t j = 0; j < n; j++) best = x[j] > best ? x[j] : best;                                 \
        return best;                                                                                        \
    }
EXPFAM_INSTANCES(EXPFAM_MAX_FLOAT, float, expfam_max_float, (const float *, ptrdiff_t))
/* Prefetch the cache lines of memory that is read soon. */
#if defined(__GNUC__) || defined(__clang__)
/* The empty statement counts as an effect: compilers drop calls of functions without effects, and their prefetches. */
#define EXPFAM_PREFETCH(address) do { __builtin_prefetch(address); __asm__ volatile("" : : "r"(address)); } while (0)
#else
#define EXPFAM_PREFETCH(address) ((void)(address))
#endif
EXPFAM_UNUSED static void expfam_prefetch(const void *start, ptrdiff_t n_bytes) {
    for (ptrdiff_t at = 0; at < n_bytes; at += 64) EXPFAM_PREFETCH((const char *)start + at);
}
/* ---- end of logs of counts ---- */
/* ---- int8 scores: one query against many rows of small integers -----------------------------------------------------
 * A block stores 64 rows in groups of four features: byte t of row j in group g of its block is at 256 g + 4 j + t, so
 * that one instruction handles 8 or 16 rows. Entries of rows are stored plus 128. The entries of rows and query are in
 * -127..127, where no sum of two products exceeds 16 bits. All instances give the same integers and, because no product
 * is fused with a sum, the same floats. Whole vectors of four-byte products need AVX-512 VNNI; without it the AVX2
 * instance is used. */
#define EXPFAM_INT8_GROUP 256
EXPFAM_INLINE void expfam_int8_block_base(const uint8_t *rows, const int8_t *query, ptrdiff_t n_groups, int32_t *dots) {
    memset(dots, 0, 64 * sizeof *dots);
    for (ptrdiff_t g = 0; g < n_groups; g++, rows += EXPFAM_INT8_GROUP, query += 4) {
        const int32_t a = query[0], b = query[1], c = query[2], d = query[3], all = 128 * (a + b + c + d);
        EXPFAM_SIMD
        for (int j = 0; j < 64; j++)
            dots[j] += a * rows[4 * j] + b * rows[4 * j + 1] + c * rows[4 * j + 2] + d * rows[4 * j + 3] - all;
    }
}

#if EXPFAM_DISPATCH
#define EXPFAM_AVX512_VNNI                                                                                  \
    __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,avx512vnni,avx2,fma,prefer-vector-width=512")))

/* The instruction multiplies unsigned by signed bytes, so the sign of the query is moved to the rows. */
EXPFAM_AVX2 EXPFAM_INLINE void expfam_int8_block_avx2(const uint8_t *rows, const int8_t *query, ptrdiff_t n_groups,
                                                      int32_t *dots) {
    const __m256i ones = _mm256_set1_epi16(1), bias = _mm256_set1_epi8(-128);
    __m256i sums[8];
    for (int v = 0; v < 8; v++) sums[v] = _mm256_setzero_si256();
    for (ptrdiff_t g = 0; g < n_groups; g++, rows += EXPFAM_INT8_GROUP) {
        int32_t four;
        memcpy(&four, query + 4 * g, 4);
        const __m256i signs = _mm256_set1_epi32(four), sizes = _mm256_abs_epi8(signs);
        for (int v = 0; v < 8; v++) {
            const __m256i entries = _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)(rows + 32 * v)), bias);
            const __m256i pairs = _mm256_maddubs_epi16(sizes, _mm256_sign_epi8(entries, signs));
            sums[v] = _mm256_add_epi32(sums[v], _mm256_madd_epi16(pairs, ones));
        }
    }
    for (int v = 0; v < 8; v++) _mm256_storeu_si256((__m256i *)(dots + 8 * v), sums[v]);
}

EXPFAM_AVX512_VNNI EXPFAM_INLINE void expfam_int8_block_avx512(const uint8_t *rows, const int8_t *query,
                                                               ptrdiff_t n_groups, int32_t *dots) {
    const __m512i bias = _mm512_set1_epi8(-128);
    __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a, all = a;
    for (ptrdiff_t g = 0; g < n_groups; g++, rows += EXPFAM_INT8_GROUP) {
        int32_t four;
        memcpy(&four, query + 4 * g, 4);
        const __m512i q = _mm512_set1_epi32(four);
        all = _mm512_dpbusd_epi32(all, bias, q); /* 128 as an unsigned byte: the contribution of the added 128 */
        a = _mm512_dpbusd_epi32(a, _mm512_loadu_si512(rows), q);
        b = _mm512_dpbusd_epi32(b, _mm512_loadu_si512(rows + 64), q);
        c = _mm512_dpbusd_epi32(c, _mm512_loadu_si512(rows + 128), q);
        d = _mm512_dpbusd_epi32(d, _mm512_loadu_si512(rows + 192), q);
    }
    _mm512_storeu_si512(dots, _mm512_sub_epi32(a, all));
    _mm512_storeu_si512(dots + 16, _mm512_sub_epi32(b, all));
    _mm512_storeu_si512(dots + 32, _mm512_sub_epi32(c, all));
    _mm512_storeu_si512(dots + 48, _mm512_sub_epi32(d, all));
}

EXPFAM_UNUSED static int expfam_int8_isa(void) {
    int level = expfam_isa();
    return level == 2 && !__builtin_cpu_supports("avx512vnni") ? 1 : level;
}
/* As EXPFAM_INSTANCES; BODY takes one more argument, the product with a block of its instance. */
#define EXPFAM_INT8_INSTANCES(BODY, result, name, arguments)                                                \
    BODY(name##_base, , expfam_int8_block_base)                                                             \
    BODY(name##_avx2, EXPFAM_AVX2, expfam_int8_block_avx2)                                                  \
    BODY(name##_avx512, EXPFAM_AVX512_VNNI, expfam_int8_block_avx512)                                       \
    EXPFAM_UNUSED static result (*name) arguments = name##_base;                                            \
    __attribute__((constructor)) static void name##_pick(void) {                                            \
        int level = expfam_int8_isa();                                                                      \
        name = level == 2 ? name##_avx512 : level == 1 ? name##_avx2 : name##_base;                         \
    }
#else
#define EXPFAM_INT8_INSTANCES(BODY, result, name, arguments)                                                \
    BODY(name##_base, , expfam_int8_block_base) EXPFAM_UNUSED static result (*name) arguments = name##_base;
#endif

#define EXPFAM_INT8_DOTS(NAME, TARGET, BLOCK)                                                               \
    TARGET static void NAME(const uint8_t *rows, const int8_t *query, ptrdiff_t n_groups, int32_t *dots,    \
                            ptrdiff_t n_blocks) {                                                           \
        for (ptrdiff_t b = 0; b < n_blocks; b++)                                                            \
            BLOCK(rows + b * n_groups * EXPFAM_INT8_GROUP, query, n_groups, dots + 64 * b);                 \
    }
EXPFAM_INT8_INSTANCES(EXPFAM_INT8_DOTS, void, expfam_int8_dots,
                      (const uint8_t *, const int8_t *, ptrdiff_t, int32_t *, ptrdiff_t))

/* scores = (dots unit scales + offsets + bias) factor; return the largest. A bias of -inf gives the score -inf. */
#define EXPFAM_INT8_SCORES(NAME, TARGET, BLOCK)                                                             \
    TARGET EXPFAM_UNFUSED static float NAME(const uint8_t *rows, const int8_t *query, ptrdiff_t n_groups, float unit, \
                                            const float *scales, const float *offsets, const float *bias,   \
                                            float factor, float *scores, ptrdiff_t n_blocks) {              \
        EXPFAM_UNFUSED_BODY                                                                                 \
        float best = -INFINITY;                                                                             \
        int32_t dots[64];                                                                                   \
        for (ptrdiff_t b = 0; b < n_blocks; b++) {                                                          \
            const ptrdiff_t k = 64 * b;                                                                     \
            float *row = scores + k;                                                                        \
            BLOCK(rows + b * n_groups * EXPFAM_INT8_GROUP, query, n_groups, dots);                          \
            EXPFAM_SIMD                                                                                     \
            for (int i = 0; i < 64; i++)                                                                    \
                row[i] = (((float)dots[i] * (unit * scales[k + i]) + offsets[k + i]) + bias[k + i]) * factor; \
            EXPFAM_SIMD_MAX(best)                                                                           \
            for (int i = 0; i < 64; i++) best = row[i] > best ? row[i] : best;                              \
        }                                                                                                   \
        return best;                                                                                        \
    }
EXPFAM_INT8_INSTANCES(EXPFAM_INT8_SCORES, float, expfam_int8_scores,
                      (const uint8_t *, const int8_t *, ptrdiff_t, float, const float *, const float *, const float *,
                       float, float *, ptrdiff_t))
/* ---- end of int8 scores ---- */
/* ---- dense labels: scores of all clusters in single precision ----
 * Rows of scores are `n` wide, a multiple of 16; blocks are of EXPFAM_BLOCK entries, the last may be shorter. */

/* out = (x - centre) * scale; return a bound of |<x - centre, theta>| from the largest |theta_j| in `reach`. */
#define EXPFAM_NARROW(NAME, TARGET)                                                                         \
    TARGET static double NAME(const double *x, const double *centre, const double *scale, const double *reach, \
                              float *out, ptrdiff_t n) {                                                    \
        double bound = 0.0;                                                                                 \
        EXPFAM_SIMD_SUM(bound)                                                                              \
        for (ptrdiff_t j = 0; j < n; j++) {                                                                 \
            const double gap = x[j] - centre[j];                                                            \
            out[j] = (float)(gap * scale[j]);                                                               \
            bound += fabs(gap) * reach[j];                                                                  \
        }                                                                                                   \
        return bound;                                                                                       \
    }
EXPFAM_INSTANCES(EXPFAM_NARROW, double, expfam_narrow,
                 (const double *, const double *, const double *, const double *, float *, ptrdiff_t))

/* Write the largest entry of each block to `tops`; return the largest of all. */
#define EXPFAM_TOPS(NAME, TARGET)                                                                           \
    TARGET static float NAME(const float *x, float *tops, ptrdiff_t n) {                                    \
        float best = -INFINITY, lanes[16];                                                                  \
        for (ptrdiff_t b = 0; b * EXPFAM_BLOCK < n; b++) {                                                  \
            const float *row = x + b * EXPFAM_BLOCK;                                                        \
            const ptrdiff_t m = n - b * EXPFAM_BLOCK < EXPFAM_BLOCK ? n - b * EXPFAM_BLOCK : EXPFAM_BLOCK;  \
            if (m == EXPFAM_BLOCK) {                                                                        \
                EXPFAM_SIMD                                                                                 \
                for (int j = 0; j < 16; j++) {                                                              \
                    const float a = row[j] > row[j + 16] ? row[j] : row[j + 16];                            \
                    const float c = row[j + 32] > row[j + 48] ? row[j + 32] : row[j + 48];                  \
                    lanes[j] = a > c ? a : c;                                                               \
                }                                                                                           \
            } else {                                                                                        \
                memcpy(lanes, row, sizeof lanes);                                                           \
                for (ptrdiff_t i = 16; i < m; i += 16)                                                      \
                    for (int j = 0; j < 16; j++) lanes[j] = row[i + j] > lanes[j] ? row[i + j] : lanes[j];  \
            }                                                                                               \
            EXPFAM_SIMD                                                                                     \
            for (int j = 0; j < 8; j++) lanes[j] = lanes[j] > lanes[j + 8] ? lanes[j] : lanes[j + 8];       \
            EXPFAM_SIMD                                                                                     \
            for (int j = 0; j < 4; j++) lanes[j] = lanes[j] > lanes[j + 4] ? lanes[j] : lanes[j + 4];       \
            lanes[0] = lanes[0] > lanes[2] ? lanes[0] : lanes[2];                                           \
            lanes[1] = lanes[1] > lanes[3] ? lanes[1] : lanes[3];                                           \
            tops[b] = lanes[0] > lanes[1] ? lanes[0] : lanes[1];                                            \
            best = tops[b] > best ? tops[b] : best;                                                         \
        }                                                                                                   \
        return best;                                                                                        \
    }
EXPFAM_INSTANCES(EXPFAM_TOPS, float, expfam_tops, (const float *, float *, ptrdiff_t))

/* x := exp(x - shift) in blocks whose largest entry is within `depth` of the shift, 0 where that is below e^-80. The
 * other blocks are not changed. The sums of blocks are in double, and 0 for the other blocks; the total is returned.
 * The exponential has a relative error of 8e-8, plus the rounding of its argument. The draw uses the weights written
 * here. */
#define EXPFAM_NEAR_WEIGHTS(NAME, TARGET)                                                                   \
    TARGET static double NAME(float *x, float shift, float depth, const float *tops, double *sums, ptrdiff_t n) { \
        const float low = shift - 80.0f; /* a variable: a constant bound becomes a branch */                \
        double total = 0.0;                                                                                 \
        for (ptrdiff_t b = 0; b * EXPFAM_BLOCK < n; b++) {                                                  \
            const ptrdiff_t m = n - b * EXPFAM_BLOCK < EXPFAM_BLOCK ? n - b * EXPFAM_BLOCK : EXPFAM_BLOCK;  \
            float *row = x + b * EXPFAM_BLOCK;                                                              \
            double sum = 0.0;                                                                               \
            sums[b] = 0.0;                                                                                  \
            if (tops[b] < shift - depth) continue;                                                          \
            EXPFAM_SIMD                                                                                     \
            for (ptrdiff_t i = 0; i < m; i++) {                                                             \
                const float u = ((row[i] < low ? low : row[i]) - shift) * 1.44269504f;                      \
                const float whole = u + 12582912.0f, f = u - (whole - 12582912.0f);                         \
                const float w = ((((1.32764713e-3f * f + 9.67554096e-3f) * f + 5.55071309e-2f) * f +        \
                                  2.40221202e-1f) * f + 6.93146944e-1f) * f + 1.00000012f; /* 2^f */        \
                uint32_t bits, steps;                                                                       \
                memcpy(&steps, &whole, 4);                                                                  \
                memcpy(&bits, &w, 4);                                                                       \
                bits += steps << 23; /* 12582912 = 0x4b400000 is 0 modulo 2^9 */                            \
                bits &= row[i] < low ? 0 : UINT32_C(0xffffffff);                                            \
                memcpy(row + i, &bits, 4);                                                                  \
            }                                                                                               \
            EXPFAM_SIMD_SUM(sum)                                                                            \
            for (ptrdiff_t i = 0; i < m; i++) sum += row[i];                                                \
            sums[b] = sum;                                                                                  \
            total += sum;                                                                                   \
        }                                                                                                   \
        return total;                                                                                       \
    }
EXPFAM_INSTANCES(EXPFAM_NEAR_WEIGHTS, double, expfam_near_weights,
                 (float *, float, float, const float *, double *, ptrdiff_t))

/* Draw an index with the weights of expfam_near_weights by one uniform number in [0, 1): first a block, then in it. */
EXPFAM_UNUSED static ptrdiff_t expfam_near_pick(const float *w, const double *sums, double total, double uniform, ptrdiff_t n) {
    double left = uniform * total;
    const ptrdiff_t n_blocks = (n + EXPFAM_BLOCK - 1) / EXPFAM_BLOCK;
    ptrdiff_t b = 0, last = n_blocks - 1, i, stop;
    while (sums[last] == 0.0) last--; /* the block of the largest weight has a positive sum */
    while (b < last && left >= sums[b]) left -= sums[b++];
    while (sums[b] == 0.0) b++;
    stop = (b + 1) * EXPFAM_BLOCK < n ? (b + 1) * EXPFAM_BLOCK : n;
    for (i = b * EXPFAM_BLOCK; i < stop - 1 && left >= w[i]; i++) left -= w[i];
    /* rounding may lead past the last positive weight: step back to it */
    while (i > b * EXPFAM_BLOCK && w[i] == 0.0f) i--;
    while (w[i] == 0.0f) i++;
    return i;
}

/* Set the entries of blocks with sum 0 to 0, and multiply all others by `factor`. */
#define EXPFAM_NEAR_SCALE(NAME, TARGET)                                                                     \
    TARGET static void NAME(float *x, float factor, const double *sums, ptrdiff_t n) {                      \
        for (ptrdiff_t b = 0; b * EXPFAM_BLOCK < n; b++) {                                                  \
            const ptrdiff_t m = n - b * EXPFAM_BLOCK < EXPFAM_BLOCK ? n - b * EXPFAM_BLOCK : EXPFAM_BLOCK;  \
            float *row = x + b * EXPFAM_BLOCK;                                                              \
            if (sums[b] == 0.0) {                                                                           \
                memset(row, 0, m * sizeof *row);                                                            \
                continue;                                                                                   \
            }                                                                                               \
            EXPFAM_SIMD                                                                                     \
            for (ptrdiff_t i = 0; i < m; i++) row[i] *= factor;                                             \
        }                                                                                                   \
    }
EXPFAM_INSTANCES(EXPFAM_NEAR_SCALE, void, expfam_near_scale, (float *, float, const double *, ptrdiff_t))

/* out += sum_r factors[r] rows[r] */
#define EXPFAM_ADD_SCALED(NAME, TARGET)                                                                     \
    TARGET static void NAME(float *out, const float *const *rows, const float *factors, ptrdiff_t n_rows, ptrdiff_t n) { \
        ptrdiff_t r = 0;                                                                                    \
        for (; r + 4 <= n_rows; r += 4) {                                                                   \
            const float *a = rows[r], *b = rows[r + 1], *c = rows[r + 2], *d = rows[r + 3];                 \
            const float fa = factors[r], fb = factors[r + 1], fc = factors[r + 2], fd = factors[r + 3];     \
            EXPFAM_SIMD                                                                                     \
            for (ptrdiff_t j = 0; j < n; j++) out[j] += (fa * a[j] + fb * b[j]) + (fc * c[j] + fd * d[j]);  \
        }                                                                                                   \
        for (; r < n_rows; r++) {                                                                           \
            const float *a = rows[r];                                                                       \
            const float fa = factors[r];                                                                    \
            EXPFAM_SIMD                                                                                     \
            for (ptrdiff_t j = 0; j < n; j++) out[j] += fa * a[j];                                          \
        }                                                                                                   \
    }
EXPFAM_INSTANCES(EXPFAM_ADD_SCALED, void, expfam_add_scaled,
                 (float *, const float *const *, const float *, ptrdiff_t, ptrdiff_t))

/* out += factor x in blocks with a positive sum. */
#define EXPFAM_ADD_NEAR(NAME, TARGET)                                                                       \
    TARGET static void NAME(double *out, const float *x, double factor, const double *sums, ptrdiff_t n) {  \
        for (ptrdiff_t b = 0; b * EXPFAM_BLOCK < n; b++) {                                                  \
            const ptrdiff_t stop = n - b * EXPFAM_BLOCK < EXPFAM_BLOCK ? n : (b + 1) * EXPFAM_BLOCK;        \
            if (sums[b] == 0.0) continue;                                                                   \
            EXPFAM_SIMD                                                                                     \
            for (ptrdiff_t i = b * EXPFAM_BLOCK; i < stop; i++) out[i] += factor * x[i];                    \
        }                                                                                                   \
    }
EXPFAM_INSTANCES(EXPFAM_ADD_NEAR, void, expfam_add_near, (double *, const float *, double, const double *, ptrdiff_t))
/* ---- end of dense labels ---- */
/* ---- prototypes: scores of tables, and changes by a move between two clusters ---- */
/* Return <x, a - b> without the cancellation of two inner products. */
#if EXPFAM_WIDE
#define EXPFAM_DOT_DIFFERENCE(NAME, TARGET)                                                                 \
    TARGET static double NAME(const double *x, const double *a, const double *b, ptrdiff_t n) {            \
        double sum = 0.0;                                                                                   \
        ptrdiff_t i = 0;                                                                                    \
        if (n >= 8) {                                                                                       \
            expfam_doubles even = {0}, odd = {0}, u, v, w;                                                  \
            for (; i + 16 <= n; i += 16) {                                                                  \
                memcpy(&u, x + i, 64), memcpy(&v, a + i, 64), memcpy(&w, b + i, 64);                        \
                even += u * (v - w);                                                                        \
                memcpy(&u, x + i + 8, 64), memcpy(&v, a + i + 8, 64), memcpy(&w, b + i + 8, 64);            \
                odd += u * (v - w);                                                                         \
            }                                                                                               \
            for (; i + 8 <= n; i += 8) {                                                                    \
                memcpy(&u, x + i, 64), memcpy(&v, a + i, 64), memcpy(&w, b + i, 64);                        \
                even += u * (v - w);                                                                        \
            }                                                                                               \
            even += odd;                                                                                    \
            EXPFAM_SUM_DOUBLES(even, sum)                                                                   \
        }                                                                                                   \
        for (; i < n; i++) sum += x[i] * (a[i] - b[i]);                                                     \
        return sum;                                                                                         \
    }
#else
#define EXPFAM_DOT_DIFFERENCE(NAME, TARGET)                                                                 \
    TARGET static double NAME(const double *x, const double *a, const double *b, ptrdiff_t n) {            \
        double sum = 0.0;                                                                                   \
        EXPFAM_SIMD_SUM(sum)                                                                                \
        for (ptrdiff_t i = 0; i < n; i++) sum += x[i] * (a[i] - b[i]);                                      \
        return sum;                                                                                         \
    }
#endif
EXPFAM_INSTANCES(EXPFAM_DOT_DIFFERENCE, double, expfam_dot_difference,
                 (const double *, const double *, const double *, ptrdiff_t))

/* x += bias; write the largest of each 16 entries to `tops`; return the largest of all. */
#define EXPFAM_BIASED_TOPS(NAME, TARGET)                                                                           \
    TARGET static float NAME(float *x, const float *bias, float *tops, ptrdiff_t n) {                       \
        float best = -INFINITY;                                                                             \
        ptrdiff_t k = 0, b = 0;                                                                             \
        for (; k + 16 <= n; k += 16, b++) {                                                                 \
            float lanes[16];                                                                                \
            EXPFAM_SIMD                                                                                     \
            for (int j = 0; j < 16; j++) lanes[j] = x[k + j] += bias[k + j];                                \
            EXPFAM_SIMD                                                                                     \
            for (int j = 0; j < 8; j++) lanes[j] = lanes[j] > lanes[j + 8] ? lanes[j] : lanes[j + 8];       \
            EXPFAM_SIMD                                                                                     \
            for (int j = 0; j < 4; j++) lanes[j] = lanes[j] > lanes[j + 4] ? lanes[j] : lanes[j + 4];       \
            lanes[0] = lanes[0] > lanes[2] ? lanes[0] : lanes[2];                                           \
            lanes[1] = lanes[1] > lanes[3] ? lanes[1] : lanes[3];                                           \
            tops[b] = lanes[0] > lanes[1] ? lanes[0] : lanes[1];                                            \
            best = tops[b] > best ? tops[b] : best;                                                         \
        }                                                                                                   \
        if (k < n) {                                                                                        \
            tops[b] = -INFINITY;                                                                            \
            for (; k < n; k++) {                                                                            \
                x[k] += bias[k];                                                                            \
                tops[b] = x[k] > tops[b] ? x[k] : tops[b];                                                  \
            }                                                                                               \
            best = tops[b] > best ? tops[b] : best;                                                         \
        }                                                                                                   \
        return best;                                                                                        \
    }
EXPFAM_INSTANCES(EXPFAM_BIASED_TOPS, float, expfam_biased_tops, (float *, const float *, float *, ptrdiff_t))

/* Collect the entries above `least` with their positions, by the tops of expfam_biased_tops; needs room for 16 more. */
EXPFAM_UNUSED static ptrdiff_t expfam_above(const float *x, const float *tops, float least, ptrdiff_t n,
                                            float *values, uint32_t *places) {
    ptrdiff_t found = 0, n_blocks = (n + 15) / 16;
    for (ptrdiff_t b = 0; b < n_blocks; b++) {
        if (tops[b] > least) {
            const ptrdiff_t stop = 16 * b + 16 < n ? 16 * b + 16 : n;
            for (ptrdiff_t k = 16 * b; k < stop; k++) { /* written always, kept sometimes: no branch to mispredict */
                values[found] = x[k];
                places[found] = (uint32_t)k;
                found += x[k] > least;
            }
        }
    }
    return found;
}

/* out = bias + sum_f x[f] table[f]: one datum and a list of clusters; rows of `table` have length `m`, m % 32 == 0. */
#define EXPFAM_LIST_ENTRIES 8
#if EXPFAM_WIDE
#define EXPFAM_LIST_SCORES(NAME, TARGET)                                                                    \
    TARGET static void NAME(const double *x, const double *table, const double *bias, ptrdiff_t n_features, \
                            ptrdiff_t m, double *out) {                                                     \
        for (ptrdiff_t first = 0; first < m; first += EXPFAM_LIST_ENTRIES) {                                \
            expfam_doubles s0, s1 = {0}, s2 = {0}, s3 = {0}, v; /* a sum must wait for the previous one */  \
            const double *row = table + first;                                                              \
            ptrdiff_t f = 0;                                                                                \
            memcpy(&s0, bias + first, 64);                                                                  \
            for (; f + 4 <= n_features; f += 4, row += 4 * m) {                                             \
                memcpy(&v, row, 64), s0 += x[f] * v;                                                        \
                memcpy(&v, row + m, 64), s1 += x[f + 1] * v;                                                \
                memcpy(&v, row + 2 * m, 64), s2 += x[f + 2] * v;                                            \
                memcpy(&v, row + 3 * m, 64), s3 += x[f + 3] * v;                                            \
            }                                                                                               \
            for (; f < n_features; f++, row += m) memcpy(&v, row, 64), s1 += x[f] * v;                      \
            s0 += s2;                                                                                       \
            s1 += s3;                                                                                       \
            s0 += s1;                                                                                       \
            memcpy(out + first, &s0, 64);                                                                   \
        }                                                                                                   \
    }
#else
#define EXPFAM_LIST_SCORES(NAME, TARGET)                                                                    \
    TARGET static void NAME(const double *x, const double *table, const double *bias, ptrdiff_t n_features, \
                            ptrdiff_t m, double *out) {                                                     \
        for (ptrdiff_t first = 0; first < m; first += EXPFAM_LIST_ENTRIES) {                                                 \
            double sums[EXPFAM_LIST_ENTRIES];                                                                                \
            memcpy(sums, bias + first, sizeof sums);                                                        \
            for (ptrdiff_t f = 0; f < n_features; f++) {                                                    \
                const double factor = x[f], *row = table + f * m + first;                                   \
                EXPFAM_SIMD                                                                                 \
                for (int j = 0; j < EXPFAM_LIST_ENTRIES; j++) sums[j] += factor * row[j];                                    \
            }                                                                                               \
            memcpy(out + first, sums, sizeof sums);                                                         \
        }                                                                                                   \
    }
#endif
EXPFAM_INSTANCES(EXPFAM_LIST_SCORES, void, expfam_list_scores,
                 (const double *, const double *, const double *, ptrdiff_t, ptrdiff_t, double *))
/* ---- end of prototypes ---- */
/* ---- products of single precision ----
 * out[j] = <x, rows[which[j]]> for rows of `n_features` floats. No product goes through more than 256 + n_features /
 * 256 + 1 additions, in any instance; callers use this to bound the rounding. */
#define EXPFAM_FLOAT_CHUNK 256
#if EXPFAM_WIDE
#define EXPFAM_FLOAT_DOTS(NAME, TARGET)                                                                     \
    TARGET static void NAME(const float *x, ptrdiff_t n_features, const float *rows, const int32_t *which, ptrdiff_t n, \
                            float *out) {                                                                   \
        for (ptrdiff_t j = 0; j < n; j += 4) {                                                              \
            const ptrdiff_t last = n - 1; /* repeats the last row if fewer than four are left */            \
            const float *r0 = rows + which[j] * n_features;                                                 \
            const float *r1 = rows + which[j + 1 < n ? j + 1 : last] * n_features;                          \
            const float *r2 = rows + which[j + 2 < n ? j + 2 : last] * n_features;                          \
            const float *r3 = rows + which[j + 3 < n ? j + 3 : last] * n_features;                          \
            float t[4] = {0.0f, 0.0f, 0.0f, 0.0f};                                                          \
            for (ptrdiff_t u = j + 4; u < j + 8 && u < n; u++) EXPFAM_PREFETCH(rows + which[u] * n_features); \
            for (ptrdiff_t b = 0; b < n_features; b += EXPFAM_FLOAT_CHUNK) {                                \
                ptrdiff_t stop = n_features - b < EXPFAM_FLOAT_CHUNK ? n_features : b + EXPFAM_FLOAT_CHUNK; \
                ptrdiff_t f = b;                                                                            \
                float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};                                                    \
                if (stop - b >= 16) {                                                                       \
                    expfam_floats s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0}, u, v;                             \
                    for (; f + 16 <= stop; f += 16) {                                                       \
                        memcpy(&u, x + f, 64);                                                              \
                        memcpy(&v, r0 + f, 64), s0 += u * v;                                                \
                        memcpy(&v, r1 + f, 64), s1 += u * v;                                                \
                        memcpy(&v, r2 + f, 64), s2 += u * v;                                                \
                        memcpy(&v, r3 + f, 64), s3 += u * v;                                                \
                    }                                                                                       \
                    EXPFAM_SUM_FLOATS(s0, sum[0])                                                           \
                    EXPFAM_SUM_FLOATS(s1, sum[1])                                                           \
                    EXPFAM_SUM_FLOATS(s2, sum[2])                                                           \
                    EXPFAM_SUM_FLOATS(s3, sum[3])                                                           \
                }                                                                                           \
                for (; f < stop; f++) {                                                                     \
                    sum[0] += x[f] * r0[f];                                                                 \
                    sum[1] += x[f] * r1[f];                                                                 \
                    sum[2] += x[f] * r2[f];                                                                 \
                    sum[3] += x[f] * r3[f];                                                                 \
                }                                                                                           \
                for (int u = 0; u < 4; u++) t[u] += sum[u];                                                 \
            }                                                                                               \
            for (ptrdiff_t u = 0; u < 4 && j + u < n; u++) out[j + u] = t[u];                               \
        }                                                                                                   \
    }
#else
#define EXPFAM_FLOAT_DOTS(NAME, TARGET)                                                                     \
    TARGET static void NAME(const float *x, ptrdiff_t n_features, const float *rows, const int32_t *which, ptrdiff_t n, \
                            float *out) {                                                                   \
        ptrdiff_t j = 0;                                                                                    \
        for (; j + 4 <= n; j += 4) {                                                                        \
            const float *r0 = rows + which[j] * n_features, *r1 = rows + which[j + 1] * n_features;         \
            const float *r2 = rows + which[j + 2] * n_features, *r3 = rows + which[j + 3] * n_features;     \
            float t0 = 0.0f, t1 = 0.0f, t2 = 0.0f, t3 = 0.0f;                                               \
            if (j + 8 <= n)                                                                                 \
                for (int u = 4; u < 8; u++) EXPFAM_PREFETCH(rows + which[j + u] * n_features);              \
            for (ptrdiff_t b = 0; b < n_features; b += EXPFAM_FLOAT_CHUNK) {                                \
                ptrdiff_t stop = n_features - b < EXPFAM_FLOAT_CHUNK ? n_features : b + EXPFAM_FLOAT_CHUNK; \
                float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;                                           \
                EXPFAM_PRAGMA(omp simd reduction(+ : s0, s1, s2, s3))                                       \
                for (ptrdiff_t f = b; f < stop; f++) {                                                      \
                    s0 += x[f] * r0[f];                                                                     \
                    s1 += x[f] * r1[f];                                                                     \
                    s2 += x[f] * r2[f];                                                                     \
                    s3 += x[f] * r3[f];                                                                     \
                }                                                                                           \
                t0 += s0;                                                                                   \
                t1 += s1;                                                                                   \
                t2 += s2;                                                                                   \
                t3 += s3;                                                                                   \
            }                                                                                               \
            out[j] = t0;                                                                                    \
            out[j + 1] = t1;                                                                                \
            out[j + 2] = t2;                                                                                \
            out[j + 3] = t3;                                                                                \
        }                                                                                                   \
        for (; j < n; j++) {                                                                                \
            const float *row = rows + which[j] * n_features;                                                \
            float total = 0.0f;                                                                             \
            for (ptrdiff_t b = 0; b < n_features; b += EXPFAM_FLOAT_CHUNK) {                                \
                ptrdiff_t stop = n_features - b < EXPFAM_FLOAT_CHUNK ? n_features : b + EXPFAM_FLOAT_CHUNK; \
                float sum = 0.0f;                                                                           \
                EXPFAM_SIMD_SUM(sum)                                                                        \
                for (ptrdiff_t f = b; f < stop; f++) sum += x[f] * row[f];                                  \
                total += sum;                                                                               \
            }                                                                                               \
            out[j] = total;                                                                                 \
        }                                                                                                   \
    }
#endif
EXPFAM_INSTANCES(EXPFAM_FLOAT_DOTS, void, expfam_float_dots,
                 (const float *, ptrdiff_t, const float *, const int32_t *, ptrdiff_t, float *))

/* out[j] = sum_t x[t] tile[columns[t]][j] for j < width: vectors stored coordinate by coordinate. Every product goes
 * through at most nnz additions. */
#define EXPFAM_SPARSE_DOTS(NAME, TARGET)                                                                    \
    TARGET static void NAME(const float *x, const int32_t *columns, ptrdiff_t nnz, const float *tile, ptrdiff_t width, \
                            float *out) {                                                                   \
        memset(out, 0, (size_t)width * sizeof(float));                                                      \
        for (ptrdiff_t t = 0; t < nnz; t++) {                                                               \
            const float *row = tile + columns[t] * width;                                                   \
            const float value = x[t];                                                                       \
            if (t + 4 < nnz) EXPFAM_PREFETCH(tile + columns[t + 4] * width);                                \
            EXPFAM_SIMD                                                                                     \
            for (ptrdiff_t j = 0; j < width; j++) out[j] += value * row[j];                                 \
        }                                                                                                   \
    }
EXPFAM_INSTANCES(EXPFAM_SPARSE_DOTS, void, expfam_sparse_dots,
                 (const float *, const int32_t *, ptrdiff_t, const float *, ptrdiff_t, float *))
/* ---- end of products of single precision ---- */
/* ---- reaches of cells ----
 * Upper bounds of the scores of the members of m cells at a distance from their common centre. `reach` has six rows of
 * length m: the smallest and the largest t of a member, 1 / curvature, curvature, smallest b and excess. The rise of a
 * cell is the largest value of min(distance t - least, distance t - curvature t^2 / 2 + excess); the parabola has its
 * maximum at distance / curvature or at an end. out[j] = min(base + rise, most), mass[j] = out[j] + weight[j]. m is a
 * multiple of EXPFAM_REACHES. */
#define EXPFAM_REACHES 8
#define EXPFAM_RISES(NAME, TARGET)                                                                          \
    TARGET static void NAME(const double *reach, const double *weight, ptrdiff_t m, double base, double distance, \
                            double most, double *out, double *mass) {                                       \
        const double *low = reach, *high = reach + m, *reciprocal = reach + 2 * m;                          \
        const double *curvature = reach + 3 * m, *least = reach + 4 * m, *excess = reach + 5 * m;           \
        EXPFAM_SIMD                                                                                         \
        for (ptrdiff_t j = 0; j < m; j++) {                                                                 \
            double t = distance * reciprocal[j];                                                            \
            t = t < low[j] ? low[j] : t;                                                                    \
            t = t > high[j] ? high[j] : t;                                                                  \
            const double linear = distance * high[j] - least[j];                                            \
            const double curved = distance * t - 0.5 * curvature[j] * t * t + excess[j];                    \
            const double bound = base + (curved < linear ? curved : linear);                                \
            out[j] = bound < most ? bound : most;                                                           \
            mass[j] = out[j] + weight[j];                                                                   \
        }                                                                                                   \
    }
EXPFAM_INSTANCES(EXPFAM_RISES, void, expfam_rises,
                 (const double *, const double *, ptrdiff_t, double, double, double, double *, double *))
/* ---- end of reaches of cells ---- */
#endif

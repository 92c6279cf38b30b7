/* Blocks of Gaussian clusters and the instances of loops over them. Instances: baseline, AVX2, AVX-512, each with
 * vectors of its own width.
 *
 * Clusters are stored in blocks of EXPFAM_LANES: row r of a block has one number of each of its clusters. So a datum is
 * scored against all clusters of a block together by plain vector arithmetic, in one stream through memory. The
 * functions return 1 if a lane left the range of doubles; the caller then scores that datum cluster by cluster with
 * scaled arithmetic.
 */
#ifndef EXPFAM_GAUSSIAN_LANES_H
#define EXPFAM_GAUSSIAN_LANES_H
#include "elementary.h"

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

/* Copies number f of WIDTH rows, one to each lane. */
#if EXPFAM_LANES == 1
#define EXPFAM_PICK(to, rows, f) (to) = (rows)[0][f]
#else
#define EXPFAM_PICK(to, rows, f) for (ptrdiff_t l = 0; l < WIDTH; l++) (to)[l] = (rows)[l][f]
#endif

/* Instances with vectors of the target's own width: a block is processed in EXPFAM_LANES / width parts, because
 * compilers generate bad code for wider vectors. BODY is a macro taking (name, target, vector type). */
#if EXPFAM_DISPATCH
#define EXPFAM_LANE_INSTANCES(BODY, result, name, arguments)                                                \
    BODY(name##_base, , expfam_double2)                                                                     \
    BODY(name##_avx2, EXPFAM_AVX2, expfam_double4)                                                          \
    BODY(name##_avx512, EXPFAM_AVX512, expfam_double8)                                                      \
    EXPFAM_CALLED(result, name, arguments, expfam_isa)
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
#endif

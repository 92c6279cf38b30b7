/* Instances of an inner loop for three instruction sets: baseline, AVX2 with FMA, AVX-512 (F, DQ, VL, BW). Each module
 * chooses an instance of each of its loops once, when it is loaded. EXPFAM_ISA=base|avx2|avx512 lowers the choice, so
 * tests can run all instances on one machine. Wheels are built with baseline flags; only the bodies of such loops are
 * compiled for more. Float results can differ between instances in their last bits (fused multiply-add, order of sums)
 * unless a header says otherwise; integer results never differ. Everything is static: each module has its own copy.
 */
#ifndef EXPFAM_DISPATCH_H
#define EXPFAM_DISPATCH_H
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
#define EXPFAM_PRAGMA(text)
#endif

/* A product is never fused with a sum: the instances then give bitwise the same floats. EXPFAM_UNFUSED stands before
 * the function, EXPFAM_UNFUSED_BODY is the first statement of its body. */
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

/* The pointer that is called: to the instance of the level that isa() returns, once the library is loaded. */
#define EXPFAM_CALLED(result, name, arguments, isa)                                                         \
    EXPFAM_UNUSED static result (*name) arguments = name##_base;                                            \
    __attribute__((constructor)) static void name##_pick(void) {                                            \
        int level = isa();                                                                                  \
        name = level == 2 ? name##_avx512 : level == 1 ? name##_avx2 : name##_base;                         \
    }

/* One body, three instances and the pointer that is called. BODY is a macro taking (name, target). */
#if EXPFAM_DISPATCH
#define EXPFAM_INSTANCES(BODY, result, name, arguments)                                                     \
    BODY(name##_base, ) BODY(name##_avx2, EXPFAM_AVX2) BODY(name##_avx512, EXPFAM_AVX512)                   \
    EXPFAM_CALLED(result, name, arguments, expfam_isa)
#else
#define EXPFAM_INSTANCES(BODY, result, name, arguments)                                                     \
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
#endif

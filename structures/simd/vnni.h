/* AVX-512 with products of bytes (VNNI): what functions for it are compiled with, and whether the machine has it. */
#ifndef EXPFAM_VNNI_H
#define EXPFAM_VNNI_H
#include "dispatch.h"
#if EXPFAM_DISPATCH
#include <immintrin.h>

#define EXPFAM_AVX512_VNNI                                                                                  \
    __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,avx512vnni,avx2,fma,prefer-vector-width=512")))

EXPFAM_UNUSED static int expfam_has_avx512_vnni(void) {
    return expfam_isa() == 2 && __builtin_cpu_supports("avx512vnni");
}
#endif
#endif

/* Vectors of 64 bytes and the sums of their entries. They are plain vectors of the compiler: each instance of a loop
 * uses them with the registers of its own instruction set.
 */
#ifndef EXPFAM_LANE_SUMS_H
#define EXPFAM_LANE_SUMS_H
#include "dispatch.h"

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
#endif

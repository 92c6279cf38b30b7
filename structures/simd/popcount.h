/* Number of set bits of a 64-bit word, by sums of ever wider parts (Warren, Hacker's Delight, section 5-1). It is
 * inlined into baseline code and needs no instruction of its own.
 */
#ifndef EXPFAM_POPCOUNT_H
#define EXPFAM_POPCOUNT_H
#include "dispatch.h"

/* Count the bits of a word by shifts and sums, so that loops over it vectorise without a popcount instruction. */
EXPFAM_INLINE uint64_t expfam_popcount1(uint64_t x) {
    x -= x >> 1 & UINT64_C(0x5555555555555555);
    x = (x & UINT64_C(0x3333333333333333)) + (x >> 2 & UINT64_C(0x3333333333333333));
    x = (x + (x >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    x += x >> 8;
    x += x >> 16;
    return (x + (x >> 32)) & 127;
}
#endif

/* Philox4x64-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011),
 * the same words as the stream of numpy.random.Philox: the counter is raised by one before each block of four.
 * A stream is a small struct on the caller's stack; its bitgen_t can be passed to NumPy's C distributions.
 */
#ifndef EXPFAM_PHILOX_H
#define EXPFAM_PHILOX_H
#include <stdint.h>
#include "numpy/random/bitgen.h"

#if defined(_MSC_VER) && defined(_M_X64)
#include <intrin.h>
static inline uint64_t expfam_mulhilo(uint64_t a, uint64_t b, uint64_t *high) { return _umul128(a, b, high); }
#else
static inline uint64_t expfam_mulhilo(uint64_t a, uint64_t b, uint64_t *high) {
    __uint128_t product = (__uint128_t)a * b;
    *high = (uint64_t)(product >> 64);
    return (uint64_t)product;
}
#endif

typedef struct {
    uint64_t key[2];      /* seed, purpose */
    uint64_t counter[4];  /* block of draws, unit, step, 0 */
    uint64_t buffer[4];
    int position;         /* next unused word of the buffer; 4 if none is left */
    int has_half;
    uint32_t half;        /* upper half of a word whose lower half was returned */
    bitgen_t bitgen;
} philox_stream;

static inline void philox_block(philox_stream *s) {
    uint64_t c0, c1, c2, c3, k0 = s->key[0], k1 = s->key[1];
    if (++s->counter[0] == 0 && ++s->counter[1] == 0 && ++s->counter[2] == 0) ++s->counter[3];
    c0 = s->counter[0]; c1 = s->counter[1]; c2 = s->counter[2]; c3 = s->counter[3];
    for (int round = 0; round < 10; round++) {
        uint64_t high0, high1;
        uint64_t low0 = expfam_mulhilo(UINT64_C(0xD2E7470EE14C6C93), c0, &high0);
        uint64_t low1 = expfam_mulhilo(UINT64_C(0xCA5A826395121157), c2, &high1);
        c0 = high1 ^ c1 ^ k0; c1 = low1; c2 = high0 ^ c3 ^ k1; c3 = low0;
        k0 += UINT64_C(0x9E3779B97F4A7C15); k1 += UINT64_C(0xBB67AE8584CAA73B);
    }
    s->buffer[0] = c0; s->buffer[1] = c1; s->buffer[2] = c2; s->buffer[3] = c3;
    s->position = 0;
}

static inline uint64_t philox_next64(philox_stream *s) {
    if (s->position > 3) philox_block(s);
    return s->buffer[s->position++];
}

static inline double philox_double(philox_stream *s) { return (double)(philox_next64(s) >> 11) * (1.0 / 9007199254740992.0); }

static uint64_t expfam_bitgen_uint64(void *state) { return philox_next64((philox_stream *)state); }
static double expfam_bitgen_double(void *state) { return philox_double((philox_stream *)state); }
static uint32_t expfam_bitgen_uint32(void *state) {
    philox_stream *s = (philox_stream *)state;
    if (s->has_half) { s->has_half = 0; return s->half; }
    uint64_t word = philox_next64(s);
    s->has_half = 1;
    s->half = (uint32_t)(word >> 32);
    return (uint32_t)word;
}

/* Call it once per thread, then philox_aim for each unit. Do not move the struct afterwards: bitgen points to it. */
static inline void philox_init(philox_stream *s, uint64_t seed, uint64_t purpose) {
    s->key[0] = seed; s->key[1] = purpose;
    s->counter[0] = s->counter[1] = s->counter[2] = s->counter[3] = 0;
    s->position = 4; s->has_half = 0; s->half = 0;
    s->bitgen.state = s;
    s->bitgen.next_uint64 = expfam_bitgen_uint64;
    s->bitgen.next_uint32 = expfam_bitgen_uint32;
    s->bitgen.next_double = expfam_bitgen_double;
    s->bitgen.next_raw = expfam_bitgen_uint64;
}

static inline void philox_aim(philox_stream *s, uint64_t unit, uint64_t step) {
    s->counter[0] = 0; s->counter[1] = unit; s->counter[2] = step; s->counter[3] = 0;
    s->position = 4; s->has_half = 0;
}
#endif

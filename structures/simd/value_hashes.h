/* Hashes of the cells of a row, for counting distinct values. Instances: baseline, AVX2, AVX-512; integers throughout,
 * so their results are the same.
 */
#ifndef EXPFAM_VALUE_HASHES_H
#define EXPFAM_VALUE_HASHES_H
#include "sign_codes.h"

/* hashes[j] = hash of the step of the grid, (row[j] - origin[j]) scale[j] rounded, in which the cell lies; is_low[j] says
 * whether it is not above its limit. Return whether one is. The hash of NaN is any number. */
#define EXPFAM_VALUE_HASHES(NAME, TARGET, REAL)                                                             \
    TARGET static int NAME(const REAL *row, ptrdiff_t n, const double *origin, const double *scale, const uint64_t *limit, \
                           uint64_t *hashes, uint8_t *is_low) {                                             \
        uint8_t below = 0;                                                                                  \
        EXPFAM_PRAGMA(omp simd reduction(| : below))                                                        \
        for (ptrdiff_t j = 0; j < n; j++) {                                                                 \
            const double step = ((double)row[j] - origin[j]) * scale[j] + 0.5;                              \
            hashes[j] = expfam_mix64((uint64_t)(int64_t)(step == step ? step : 0.0));                       \
            is_low[j] = hashes[j] <= limit[j];                                                              \
            below |= is_low[j];                                                                             \
        }                                                                                                   \
        return below;                                                                                       \
    }
#define EXPFAM_HASHES_FLOAT(NAME, TARGET) EXPFAM_VALUE_HASHES(NAME, TARGET, float)
#define EXPFAM_HASHES_DOUBLE(NAME, TARGET) EXPFAM_VALUE_HASHES(NAME, TARGET, double)

/* Write the numbers of the bytes that are 1 among n bytes that are 0 or 1, and return how many they are. There is room
 * for a multiple of eight bytes, and those beyond n may be anything. */
EXPFAM_UNUSED static ptrdiff_t expfam_low_cells(const uint8_t *is_low, ptrdiff_t n, uint32_t *out) {
    ptrdiff_t found = 0;
    for (ptrdiff_t first = 0; first < n; first += 8) {
        uint64_t eight;
        memcpy(&eight, is_low + first, 8);
#if (defined(__GNUC__) || defined(__clang__)) && defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        for (; eight; eight &= eight - 1) out[found++] = (uint32_t)(first + __builtin_ctzll(eight) / 8);
#else
        if (!eight) continue;
        for (ptrdiff_t j = first; j < first + 8; j++) {
            if (is_low[j]) out[found++] = (uint32_t)j;
        }
#endif
    }
    while (found && (ptrdiff_t)out[found - 1] >= n) found--;
    return found;
}
EXPFAM_INSTANCES(EXPFAM_HASHES_FLOAT, int, expfam_float_hashes,
                 (const float *, ptrdiff_t, const double *, const double *, const uint64_t *, uint64_t *,
                  uint8_t *))
EXPFAM_INSTANCES(EXPFAM_HASHES_DOUBLE, int, expfam_double_hashes,
                 (const double *, ptrdiff_t, const double *, const double *, const uint64_t *, uint64_t *,
                  uint8_t *))
#endif

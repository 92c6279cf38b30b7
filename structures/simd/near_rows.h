/* Rows that may be near to some of 32 points, by products in single precision. Instances: baseline, AVX2, AVX-512, each
 * with vectors of its own width. AVX2 and AVX-512 fuse products with sums, the baseline does not; callers allow for it.
 *
 * A tile stores EXPFAM_NEAR_ROWS rows coordinate by coordinate, as boxes.h has them; vectors run over the points.
 */
#ifndef EXPFAM_NEAR_ROWS_H
#define EXPFAM_NEAR_ROWS_H
#include "row_tiles.h"

#define EXPFAM_NEAR_ROWS 16
#define EXPFAM_NEAR_POINTS 32

/* Writes row * EXPFAM_NEAR_POINTS + point to `found` for each pair whose score is at most most[point], and returns
 * their number. The score is norms[row] + <row, points>: with entries -2 q of a point and norms |x|^2 it is the squared
 * distance less |q|^2. `points` has the entries coordinate by coordinate: (n_columns, EXPFAM_NEAR_POINTS). NaN is no
 * score. Eight sums (two vectors of points, four rows) stay in registers and hide the latency of the multiply-add. */
#define EXPFAM_ROWS_WITHIN(NAME, TARGET, FLOATS, LABELS)                                                    \
    TARGET static ptrdiff_t NAME(const float *points, ptrdiff_t n_points, ptrdiff_t n_columns, const float *tiles, \
                                 const float *norms, ptrdiff_t n_tiles, const float *most, int32_t *found) { \
        enum { WIDTH = EXPFAM_FLOATS(FLOATS) };                                                             \
        ptrdiff_t n = 0;                                                                                    \
        for (ptrdiff_t i = 0; i < n_points; i += 2 * WIDTH) {                                               \
            const FLOATS most0 = *(const FLOATS *)(most + i), most1 = *(const FLOATS *)(most + i + WIDTH);  \
            for (ptrdiff_t row = 0; row < n_tiles * EXPFAM_NEAR_ROWS; row += 4) {                           \
                const ptrdiff_t lane = row % EXPFAM_NEAR_ROWS;                                              \
                const float *c = tiles + (row - lane) * n_columns + lane;                                   \
                const float *x = points + i, *norm = norms + row;                                           \
                FLOATS a0 = (FLOATS){0} + norm[0], b0 = (FLOATS){0} + norm[1], a1 = a0, b1 = b0;            \
                FLOATS c0 = (FLOATS){0} + norm[2], d0 = (FLOATS){0} + norm[3], c1 = c0, d1 = d0;            \
                LABELS near[8], some;                                                                       \
                int32_t lanes[8 * WIDTH], any = 0;                                                          \
                for (ptrdiff_t j = 0; j < n_columns; j++, x += EXPFAM_NEAR_POINTS, c += EXPFAM_NEAR_ROWS) { \
                    const FLOATS x0 = *(const FLOATS *)x, x1 = *(const FLOATS *)(x + WIDTH);                \
                    a0 += x0 * c[0], a1 += x1 * c[0];                                                       \
                    b0 += x0 * c[1], b1 += x1 * c[1];                                                       \
                    c0 += x0 * c[2], c1 += x1 * c[2];                                                       \
                    d0 += x0 * c[3], d1 += x1 * c[3];                                                       \
                }                                                                                           \
                near[0] = (LABELS)(a0 <= most0), near[1] = (LABELS)(a1 <= most1);                           \
                near[2] = (LABELS)(b0 <= most0), near[3] = (LABELS)(b1 <= most1);                           \
                near[4] = (LABELS)(c0 <= most0), near[5] = (LABELS)(c1 <= most1);                           \
                near[6] = (LABELS)(d0 <= most0), near[7] = (LABELS)(d1 <= most1);                           \
                some = ((near[0] | near[1]) | (near[2] | near[3])) | ((near[4] | near[5]) | (near[6] | near[7])); \
                memcpy(lanes, &some, sizeof some);                                                          \
                for (int l = 0; l < WIDTH; l++) any |= lanes[l];                                            \
                if (!any) continue;                                                                         \
                memcpy(lanes, near, sizeof near);                                                           \
                for (int l = 0; l < 8 * WIDTH; l++)                                                         \
                    if (lanes[l])                                                                           \
                        found[n++] = (int32_t)((row + l / (2 * WIDTH)) * EXPFAM_NEAR_POINTS + i + l % (2 * WIDTH)); \
            }                                                                                               \
        }                                                                                                   \
        return n;                                                                                           \
    }
EXPFAM_TILE_INSTANCES(EXPFAM_ROWS_WITHIN, ptrdiff_t, expfam_rows_within,
                      (const float *, ptrdiff_t, ptrdiff_t, const float *, const float *, ptrdiff_t, const float *,
                       int32_t *))
#endif

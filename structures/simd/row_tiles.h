/* Rows in tiles, compared with points: the nearest centre of each row, and squared distances to a few points.
 * Instances: baseline, AVX2, AVX-512, each with vectors of its own width.
 *
 * A tile stores EXPFAM_TILE_ROWS rows coordinate by coordinate, so vectors run over rows: there is no sum across lanes,
 * and no lane is lost where there are few centres or columns. Every sum has the same order in all instances. AVX2 and
 * AVX-512 fuse products with sums, the baseline does not, so its last bits differ from theirs, which are the same.
 */
#ifndef EXPFAM_ROW_TILES_H
#define EXPFAM_ROW_TILES_H
#include "dispatch.h"

#define EXPFAM_TILE_ROWS 32
#define EXPFAM_PACK 4 /* centres of a pack, which stores them coordinate by coordinate */
#if defined(__GNUC__) || defined(__clang__)
#define EXPFAM_TILE_VECTOR(bytes) __attribute__((vector_size(bytes), aligned(4), may_alias))
typedef float expfam_float4 EXPFAM_TILE_VECTOR(16);
typedef float expfam_float8 EXPFAM_TILE_VECTOR(32);
typedef float expfam_float16 EXPFAM_TILE_VECTOR(64);
typedef int32_t expfam_label4 EXPFAM_TILE_VECTOR(16);
typedef int32_t expfam_label8 EXPFAM_TILE_VECTOR(32);
typedef int32_t expfam_label16 EXPFAM_TILE_VECTOR(64);
#define EXPFAM_CHOSEN(MASK, YES, NO) (((MASK) & (YES)) | (~(MASK) & (NO)))
#define EXPFAM_CHOSEN_FLOATS(FLOATS, LABELS, MASK, YES, NO) (FLOATS) EXPFAM_CHOSEN(MASK, (LABELS)(YES), (LABELS)(NO))
#else
typedef float expfam_float4, expfam_float8, expfam_float16;
typedef int32_t expfam_label4, expfam_label8, expfam_label16;
#define EXPFAM_CHOSEN(MASK, YES, NO) ((MASK) ? (YES) : (NO))
#define EXPFAM_CHOSEN_FLOATS(FLOATS, LABELS, MASK, YES, NO) EXPFAM_CHOSEN(MASK, YES, NO)
#endif

/* Instances with vectors of the target's own width, because compilers generate bad code for wider ones. BODY is a macro
 * taking (name, target, vector of floats, vector of labels). */
#if EXPFAM_DISPATCH
#define EXPFAM_TILE_INSTANCES(BODY, result, name, arguments)                                                \
    BODY(name##_base, , expfam_float4, expfam_label4)                                                       \
    BODY(name##_avx2, EXPFAM_AVX2, expfam_float8, expfam_label8)                                            \
    BODY(name##_avx512, EXPFAM_AVX512, expfam_float16, expfam_label16)                                      \
    EXPFAM_CALLED(result, name, arguments, expfam_isa)
#else
#define EXPFAM_TILE_INSTANCES(BODY, result, name, arguments)                                                \
    BODY(name##_base, , expfam_float4, expfam_label4) EXPFAM_UNUSED static result (*name) arguments = name##_base;
#endif
#define EXPFAM_FLOATS(FLOATS) ((ptrdiff_t)(sizeof(FLOATS) / sizeof(float)))

#define EXPFAM_NEARER(FLOATS, LABELS, score, label, best, owner)                                            \
    {                                                                                                       \
        const LABELS nearer = (LABELS)(score < best);                                                       \
        best = EXPFAM_CHOSEN_FLOATS(FLOATS, LABELS, nearer, score, best);                                   \
        owner = EXPFAM_CHOSEN(nearer, label, owner);                                                        \
    }

/* Give the rows of some tiles to centres first, first + 1, ... whose score is below best[i]. The score of a centre is
 * norm + <its entries in the pack, row>: with entries -2 c and norm |c|^2 it is the squared distance less |row|^2. Of
 * equal scores the first centre keeps the row; NaN never gets one. Eight sums (two vectors of rows, a pack of centres)
 * stay in registers and hide the latency of the multiply-add. */
#define EXPFAM_ROWS_NEAREST(NAME, TARGET, FLOATS, LABELS)                                                   \
    TARGET static void NAME(const float *tiles, ptrdiff_t n_tiles, ptrdiff_t n_columns, const float *packs, \
                            const float *norms, ptrdiff_t n_packs, int32_t first, float *best, int32_t *owner) { \
        enum { WIDTH = EXPFAM_FLOATS(FLOATS) };                                                             \
        for (ptrdiff_t i = 0; i < n_tiles * EXPFAM_TILE_ROWS; i += 2 * WIDTH) {                             \
            const float *rows = tiles + i / EXPFAM_TILE_ROWS * EXPFAM_TILE_ROWS * n_columns + i % EXPFAM_TILE_ROWS; \
            const float *c = packs;                                                                         \
            FLOATS best0 = *(FLOATS *)(best + i), best1 = *(FLOATS *)(best + i + WIDTH);                    \
            LABELS owner0 = *(LABELS *)(owner + i), owner1 = *(LABELS *)(owner + i + WIDTH);                \
            for (ptrdiff_t p = 0; p < n_packs; p++) {                                                       \
                const float *x = rows, *norm = norms + EXPFAM_PACK * p;                                     \
                const int32_t label = first + (int32_t)(EXPFAM_PACK * p);                                   \
                FLOATS a0 = (FLOATS){0} + norm[0], b0 = (FLOATS){0} + norm[1], a1 = a0, b1 = b0;            \
                FLOATS c0 = (FLOATS){0} + norm[2], d0 = (FLOATS){0} + norm[3], c1 = c0, d1 = d0;            \
                for (ptrdiff_t j = 0; j < n_columns; j++, x += EXPFAM_TILE_ROWS, c += EXPFAM_PACK) {        \
                    const FLOATS x0 = *(const FLOATS *)x, x1 = *(const FLOATS *)(x + WIDTH);                \
                    a0 += x0 * c[0], a1 += x1 * c[0];                                                       \
                    b0 += x0 * c[1], b1 += x1 * c[1];                                                       \
                    c0 += x0 * c[2], c1 += x1 * c[2];                                                       \
                    d0 += x0 * c[3], d1 += x1 * c[3];                                                       \
                }                                                                                           \
                EXPFAM_NEARER(FLOATS, LABELS, a0, label, best0, owner0)                                     \
                EXPFAM_NEARER(FLOATS, LABELS, a1, label, best1, owner1)                                     \
                EXPFAM_NEARER(FLOATS, LABELS, b0, (label + 1), best0, owner0)                               \
                EXPFAM_NEARER(FLOATS, LABELS, b1, (label + 1), best1, owner1)                               \
                EXPFAM_NEARER(FLOATS, LABELS, c0, (label + 2), best0, owner0)                               \
                EXPFAM_NEARER(FLOATS, LABELS, c1, (label + 2), best1, owner1)                               \
                EXPFAM_NEARER(FLOATS, LABELS, d0, (label + 3), best0, owner0)                               \
                EXPFAM_NEARER(FLOATS, LABELS, d1, (label + 3), best1, owner1)                               \
            }                                                                                               \
            *(FLOATS *)(best + i) = best0, *(FLOATS *)(best + i + WIDTH) = best1;                           \
            *(LABELS *)(owner + i) = owner0, *(LABELS *)(owner + i + WIDTH) = owner1;                       \
        }                                                                                                   \
    }
EXPFAM_TILE_INSTANCES(EXPFAM_ROWS_NEAREST, void, expfam_rows_nearest,
                      (const float *, ptrdiff_t, ptrdiff_t, const float *, const float *, ptrdiff_t, int32_t, float *,
                       int32_t *))

#define EXPFAM_REACH_POINTS(FLOATS, LABELS, COUNT)                                                          \
    {                                                                                                       \
        FLOATS sum0[COUNT], sum1[COUNT];                                                                    \
        for (int u = 0; u < COUNT; u++) sum0[u] = (FLOATS){0}, sum1[u] = (FLOATS){0};                       \
        for (ptrdiff_t j = 0; j < n_columns; j++) {                                                         \
            const FLOATS x0 = *(const FLOATS *)(rows + j * EXPFAM_TILE_ROWS);                               \
            const FLOATS x1 = *(const FLOATS *)(rows + j * EXPFAM_TILE_ROWS + WIDTH);                       \
            for (int u = 0; u < COUNT; u++) {                                                               \
                const FLOATS gap0 = x0 - point[u * n_columns + j], gap1 = x1 - point[u * n_columns + j];    \
                sum0[u] += gap0 * gap0, sum1[u] += gap1 * gap1;                                             \
            }                                                                                               \
        }                                                                                                   \
        for (int u = 0; u < COUNT; u++) {                                                                   \
            FLOATS *to = (FLOATS *)(out + u * stride + i), *total = (FLOATS *)(lanes[u] + i % EXPFAM_TILE_ROWS); \
            FLOATS *total1 = (FLOATS *)(lanes[u] + i % EXPFAM_TILE_ROWS + WIDTH);                           \
            const LABELS nearer0 = (LABELS)(sum0[u] < near0), nearer1 = (LABELS)(sum1[u] < near1);          \
            const FLOATS left0 = EXPFAM_CHOSEN_FLOATS(FLOATS, LABELS, nearer0, sum0[u], near0);             \
            const FLOATS left1 = EXPFAM_CHOSEN_FLOATS(FLOATS, LABELS, nearer1, sum1[u], near1);             \
            *to = left0, *(FLOATS *)(out + u * stride + i + WIDTH) = left1;                                 \
            *total += left0, *total1 += left1;                                                              \
        }                                                                                                   \
    }

/* out[u * stride + i] = min(squared distance of row i to point u, near[i]); sums[u * n_sums] = their sum over the rows.
 * The distances are computed from differences: a copy of a point has distance 0. Sums run in single precision over the
 * tiles, for each row of a tile apart, then in double: a call is for few tiles. */
#define EXPFAM_ROWS_REACH(NAME, TARGET, FLOATS, LABELS)                                                     \
    TARGET static void NAME(const float *tiles, ptrdiff_t n_tiles, ptrdiff_t n_columns, const float *points, \
                            ptrdiff_t n_points, const float *near, float *out, ptrdiff_t stride, double *sums, \
                            ptrdiff_t n_sums) {                                                             \
        enum { WIDTH = EXPFAM_FLOATS(FLOATS) };                                                             \
        while (n_points > 0) {                                                                              \
            const float *point = points;                                                                    \
            const int count = n_points < 4 ? (int)n_points : 4;                                             \
            float lanes[4][EXPFAM_TILE_ROWS] = {{0.0f}};                                                    \
            for (ptrdiff_t i = 0; i < n_tiles * EXPFAM_TILE_ROWS; i += 2 * WIDTH) {                         \
                const float *rows =                                                                         \
                    tiles + i / EXPFAM_TILE_ROWS * EXPFAM_TILE_ROWS * n_columns + i % EXPFAM_TILE_ROWS;     \
                const FLOATS near0 = *(const FLOATS *)(near + i), near1 = *(const FLOATS *)(near + i + WIDTH); \
                if (count == 4) EXPFAM_REACH_POINTS(FLOATS, LABELS, 4)                                      \
                else if (count == 3) EXPFAM_REACH_POINTS(FLOATS, LABELS, 3)                                 \
                else if (count == 2) EXPFAM_REACH_POINTS(FLOATS, LABELS, 2)                                 \
                else EXPFAM_REACH_POINTS(FLOATS, LABELS, 1)                                                 \
            }                                                                                               \
            for (int u = 0; u < count; u++) {                                                               \
                double total = 0.0;                                                                         \
                for (int i = 0; i < EXPFAM_TILE_ROWS; i++) total += lanes[u][i];                            \
                sums[u * n_sums] = total;                                                                   \
            }                                                                                               \
            points += count * n_columns, out += count * stride, sums += count * n_sums, n_points -= count;  \
        }                                                                                                   \
    }
EXPFAM_TILE_INSTANCES(EXPFAM_ROWS_REACH, void, expfam_rows_reach,
                      (const float *, ptrdiff_t, ptrdiff_t, const float *, ptrdiff_t, const float *, float *, ptrdiff_t,
                       double *, ptrdiff_t))

/* Instances of a body that fuses products with sums where vectors of the target do: BODY takes (name, target, fused). */
#ifdef __FP_FAST_FMAF
#define EXPFAM_BASE_FUSES 1
#else
#define EXPFAM_BASE_FUSES 0
#endif
#if EXPFAM_DISPATCH
#define EXPFAM_FUSED_INSTANCES(BODY, result, name, arguments)                                               \
    BODY(name##_base, , EXPFAM_BASE_FUSES)                                                                  \
    BODY(name##_avx2, EXPFAM_AVX2, 1)                                                                       \
    BODY(name##_avx512, EXPFAM_AVX512, 1)                                                                   \
    EXPFAM_CALLED(result, name, arguments, expfam_isa)
#else
#define EXPFAM_FUSED_INSTANCES(BODY, result, name, arguments)                                               \
    BODY(name##_base, , EXPFAM_BASE_FUSES) EXPFAM_UNUSED static result (*name) arguments = name##_base;
#endif

/* Scores of one row under some of the centres, with the bits that EXPFAM_ROWS_NEAREST compares: `entries` holds -2 c of
 * each centre. Eight sums hide the latency of the multiply-add; no sum is cut, so that its order is that of a tile. A
 * compiler may cut a sum into products and additions: so fused ones are written as such. */
#define EXPFAM_ROWS_LISTED(NAME, TARGET, FUSED)                                                             \
    TARGET static void NAME(const float *row, const float *entries, ptrdiff_t n_columns, const float *norms, \
                            const int32_t *places, ptrdiff_t n, float *out) {                               \
        for (ptrdiff_t i = 0; i < n; i += 8) {                                                              \
            const float *c[8];                                                                              \
            float sums[8];                                                                                  \
            for (int u = 0; u < 8; u++) {                                                                   \
                const ptrdiff_t k = places[i + u < n ? i + u : i];                                          \
                c[u] = entries + k * n_columns, sums[u] = norms[k];                                         \
            }                                                                                               \
            for (ptrdiff_t j = 0; j < n_columns; j++)                                                       \
                for (int u = 0; u < 8; u++)                                                                 \
                    sums[u] = FUSED ? fmaf(row[j], c[u][j], sums[u]) : sums[u] + row[j] * c[u][j];          \
            for (int u = 0; u < 8 && i + u < n; u++) out[i + u] = sums[u];                                  \
        }                                                                                                   \
    }
EXPFAM_FUSED_INSTANCES(EXPFAM_ROWS_LISTED, void, expfam_rows_listed,
                 (const float *, const float *, ptrdiff_t, const float *, const int32_t *, ptrdiff_t, float *))
#endif

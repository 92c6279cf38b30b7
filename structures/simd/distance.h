/* Squared Euclidean distances in single precision: of two vectors, and of one vector to tiles of sixteen vectors.
 * Instances: baseline, AVX2, AVX-512.
 *
 * The distances are computed from differences, because the expansion into norms cancels. Sums of two vectors run in
 * float over at most 4096 terms, then in double.
 */
#ifndef EXPFAM_DISTANCE_H
#define EXPFAM_DISTANCE_H
#include "dispatch.h"

#define EXPFAM_SQUARE_DISTANCE(NAME, TARGET)                                                                \
    TARGET static double NAME(const float *a, const float *b, ptrdiff_t n) {                                \
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
#endif

/* Squared distances of a point to sixteen boxes in single precision. Instances: baseline, AVX2, AVX-512; results can
 * differ in their last bits.
 *
 * `boxes` has the lower ends of sixteen boxes column by column, then their upper ends: (2 n_features, 16). An empty box
 * has lower ends of +inf and upper ends of -inf; its distance is infinite. A point is a box whose ends are equal.
 */
#ifndef EXPFAM_BOXES_H
#define EXPFAM_BOXES_H
#include "dispatch.h"

#define EXPFAM_BOX_LANES 16
#if defined(__GNUC__) || defined(__clang__)
typedef float expfam_box_floats __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t expfam_box_bits __attribute__((vector_size(64), aligned(4), may_alias));
#define EXPFAM_POSITIVE(x) ((expfam_box_floats)(((x) > 0.0f) & (expfam_box_bits)(x)))
#define EXPFAM_BOX_SUM                                                                                      \
    expfam_box_floats sum = {0};                                                                            \
    for (ptrdiff_t j = 0; j < n_features; j++) {                                                            \
        expfam_box_floats below = *(const expfam_box_floats *)(boxes + j * EXPFAM_BOX_LANES) - q[j];        \
        expfam_box_floats above = q[j] - *(const expfam_box_floats *)(boxes + (n_features + j) * EXPFAM_BOX_LANES); \
        expfam_box_floats gap = EXPFAM_POSITIVE(below) + EXPFAM_POSITIVE(above);                            \
        sum += gap * gap;                                                                                   \
    }                                                                                                       \
    *(expfam_box_floats *)squares = sum;
#define EXPFAM_POINT_SUM                                                                                    \
    expfam_box_floats sum = {0};                                                                            \
    for (ptrdiff_t j = 0; j < n_features; j++) {                                                            \
        expfam_box_floats gap = *(const expfam_box_floats *)(points + j * EXPFAM_BOX_LANES) - q[j];         \
        sum += gap * gap;                                                                                   \
    }                                                                                                       \
    *(expfam_box_floats *)squares = sum;
#else
#define EXPFAM_BOX_SUM                                                                                      \
    for (int i = 0; i < EXPFAM_BOX_LANES; i++) squares[i] = 0.0f;                                           \
    for (ptrdiff_t j = 0; j < n_features; j++)                                                              \
        for (int i = 0; i < EXPFAM_BOX_LANES; i++) {                                                        \
            float below = boxes[j * EXPFAM_BOX_LANES + i] - q[j];                                           \
            float above = q[j] - boxes[(n_features + j) * EXPFAM_BOX_LANES + i];                            \
            float gap = (below > 0.0f ? below : 0.0f) + (above > 0.0f ? above : 0.0f);                      \
            squares[i] += gap * gap;                                                                        \
        }
#define EXPFAM_POINT_SUM                                                                                    \
    for (int i = 0; i < EXPFAM_BOX_LANES; i++) squares[i] = 0.0f;                                           \
    for (ptrdiff_t j = 0; j < n_features; j++)                                                              \
        for (int i = 0; i < EXPFAM_BOX_LANES; i++) {                                                        \
            float gap = points[j * EXPFAM_BOX_LANES + i] - q[j];                                            \
            squares[i] += gap * gap;                                                                        \
        }
#endif

#define EXPFAM_BOX_SQUARES(NAME, TARGET)                                                                    \
    TARGET static void NAME(const float *boxes, const float *q, ptrdiff_t n_features, float *squares) {     \
        EXPFAM_BOX_SUM                                                                                      \
    }
EXPFAM_INSTANCES(EXPFAM_BOX_SQUARES, void, expfam_box_squares, (const float *, const float *, ptrdiff_t, float *))

/* The same of sixteen points, whose coordinates are stored column by column: (n_features, 16). */
#define EXPFAM_POINT_SQUARES(NAME, TARGET)                                                                  \
    TARGET static void NAME(const float *points, const float *q, ptrdiff_t n_features, float *squares) {    \
        EXPFAM_POINT_SUM                                                                                    \
    }
EXPFAM_INSTANCES(EXPFAM_POINT_SQUARES, void, expfam_point_squares, (const float *, const float *, ptrdiff_t, float *))
#endif

/* Scores of one datum in the clusters of Gaussians with full covariance: log predictive densities, which are
 * multivariate Student t densities (conjugate normal-inverse-Wishart model). Also the inverse Cholesky factors W that
 * the scores need, with their change by one datum. Blocks: see gaussian_lanes.h. Instances: baseline, AVX2, AVX-512.
 */
#ifndef EXPFAM_GAUSSIAN_FULL_H
#define EXPFAM_GAUSSIAN_FULL_H
#include "gaussian_lanes.h"

/* Rows of a block: constant, half, weight, the location of each column, then by rows the inverse W of the Cholesky
 * factor. score = constant - half * log(1 + weight |W (x - location)|^2). Two rows at a time share their loads and form
 * two chains of additions. `scratch` has EXPFAM_LANES * d numbers. */
#define EXPFAM_GAUSS_SCAN(NAME, TARGET, VECTOR)                                                             \
    TARGET static int NAME(const double *x, const double *block, ptrdiff_t d, ptrdiff_t count, double *out, \
                           double *scratch) {                                                               \
        enum { WIDTH = EXPFAM_WIDTH(VECTOR), STEP = EXPFAM_LANES / EXPFAM_WIDTH(VECTOR) };                  \
        ptrdiff_t rows = 3 + d + d * (d + 1) / 2;                                                           \
        VECTOR *v = (VECTOR *)(((uintptr_t)scratch + 63) & ~(uintptr_t)63), worst = *(const VECTOR *)block * 0.0; \
        for (ptrdiff_t start = 0; start < count; start += WIDTH) {                                          \
            const VECTOR *row = (const VECTOR *)(block + start / EXPFAM_LANES * EXPFAM_LANES * rows +       \
                                                 start % EXPFAM_LANES);                                     \
            VECTOR constant = row[0], half = row[STEP], weight = row[2 * STEP], sum = row[0] * 0.0;         \
            row += 3 * STEP;                                                                                \
            for (ptrdiff_t j = 0; j < d; j++, row += STEP) v[j] = x[j] - row[0];                            \
            for (ptrdiff_t j = 0; j + 1 < d; j += 2) {                                                      \
                const VECTOR *next = row + (j + 1) * STEP;                                                  \
                VECTOR a = row[0] * v[0], b = next[0] * v[0];                                               \
                for (ptrdiff_t i = 1; i <= j; i++) {                                                        \
                    a += row[i * STEP] * v[i];                                                              \
                    b += next[i * STEP] * v[i];                                                             \
                }                                                                                           \
                b += next[(j + 1) * STEP] * v[j + 1];                                                       \
                sum += a * a;                                                                               \
                sum += b * b;                                                                               \
                row = next + (j + 2) * STEP;                                                                \
            }                                                                                               \
            if (d % 2) {                                                                                    \
                VECTOR a = row[0] * v[0];                                                                   \
                for (ptrdiff_t i = 1; i < d; i++) a += row[i * STEP] * v[i];                                \
                sum += a * a;                                                                               \
            }                                                                                               \
            sum = 1.0 + weight * sum;                                                                       \
            worst += sum;                                                                                   \
            EXPFAM_LOG_LANES(VECTOR, sum);                                                                  \
            sum = constant - half * sum;                                                                    \
            expfam_store(out, start, count, &sum, WIDTH);                                                   \
        }                                                                                                   \
        return expfam_is_wild(&worst, WIDTH);                                                               \
    }
EXPFAM_LANE_INSTANCES(EXPFAM_GAUSS_SCAN, int, expfam_gauss_scan,
                      (const double *, const double *, ptrdiff_t, ptrdiff_t, double *, double *))

/* ---- W = L^-1 of one cluster in panels of EXPFAM_PANEL rows. A panel stores its columns one after another, up to the
 * column of its last row. Zero rows in front fill the first panel, so that the last panels are whole. With a stored W,
 * |W v|^2 is a product without a chain of dependent rows, the memory of a cluster is contiguous, and a change of one
 * datum writes one stream. Panels of 4 rows have fewer zeros above the diagonal than panels of 8, which matters for
 * large tables: they are read at the speed of the cache. */
#if EXPFAM_LANES == 8
#define EXPFAM_PANEL 4
typedef expfam_double4 expfam_panel;
#else
#define EXPFAM_PANEL 1
typedef double expfam_panel;
#endif

EXPFAM_INLINE ptrdiff_t expfam_padding(ptrdiff_t d) { return (EXPFAM_PANEL - d % EXPFAM_PANEL) % EXPFAM_PANEL; }

/* Return the start of the panel with padded row r; with r = d + padding, the size of all panels. */
EXPFAM_INLINE ptrdiff_t expfam_panel_start(ptrdiff_t r, ptrdiff_t padding) {
    ptrdiff_t p = r / EXPFAM_PANEL;
    return EXPFAM_PANEL * (EXPFAM_PANEL * p * (p + 1) / 2 - padding * p);
}

EXPFAM_UNUSED static ptrdiff_t expfam_panel_size(ptrdiff_t d) {
    return expfam_panel_start(d + expfam_padding(d), expfam_padding(d));
}

/* diagonal[j] = W[j, j] */
EXPFAM_UNUSED static void expfam_panel_diagonal(const double *panels, double *diagonal, ptrdiff_t d) {
    ptrdiff_t r = expfam_padding(d), columns = EXPFAM_PANEL - r;
    for (ptrdiff_t j = 0; j < d; columns += EXPFAM_PANEL) {
        panels += EXPFAM_PANEL * columns;
        for (; r < EXPFAM_PANEL; r++, j++) diagonal[j] = panels[(r - EXPFAM_PANEL) * EXPFAM_PANEL + r];
        r = 0;
    }
}

/* Copy W by rows into a block of expfam_gauss_scan, where its entries are EXPFAM_LANES apart. */
EXPFAM_UNUSED static void expfam_panel_weave(const double *panels, double *out, ptrdiff_t d) {
    ptrdiff_t r = expfam_padding(d), columns = EXPFAM_PANEL - r;
    for (ptrdiff_t i = 0; i < d; columns += EXPFAM_PANEL) {
        for (; r < EXPFAM_PANEL; r++, i++)
            for (ptrdiff_t j = 0; j <= i; j++, out += EXPFAM_LANES) *out = panels[j * EXPFAM_PANEL + r];
        panels += EXPFAM_PANEL * columns;
        r = 0;
    }
}

/* Sum the entries by adding halves. */
EXPFAM_INLINE double expfam_panel_sum(const void *entries) {
    double a[EXPFAM_PANEL], total = 0.0;
    memcpy(a, entries, sizeof a);
    for (int l = 0; l < EXPFAM_PANEL / 2; l++) a[l] += a[l + EXPFAM_PANEL / 2];
    for (int l = 0; l < (EXPFAM_PANEL + 1) / 2; l++) total += a[l];
    return total;
}

/* Compute W v for the rows of one panel. The odd columns of the first panel come first, then EXPFAM_PANEL columns at a
 * time; four partial sums shorten the chain of additions. */
#define EXPFAM_PANEL_PRODUCT(panel, v, odd, columns, z)                                                     \
    do {                                                                                                    \
        expfam_panel z1 = (z) * 0.0, z2 = z1, z3 = z1;                                                      \
        ptrdiff_t col = 0;                                                                                  \
        for (; col < (odd); col++, (panel)++) (z) += (panel)[0] * (v)[col];                                 \
        for (; col + 3 < (columns); col += 4, (panel) += 4) {                                               \
            (z) += (panel)[0] * (v)[col];                                                                   \
            z1 += (panel)[1] * (v)[col + 1];                                                                \
            z2 += (panel)[2] * (v)[col + 2];                                                                \
            z3 += (panel)[3] * (v)[col + 3];                                                                \
        }                                                                                                   \
        for (; col < (columns); col++, (panel)++) (z) += (panel)[0] * (v)[col];                             \
        (z) += z1 + (z2 + z3);                                                                              \
    } while (0)

/* Return |W v|^2 and write z = W v with the padding in front. */
#define EXPFAM_PANEL_SQUARE(NAME, TARGET)                                                                   \
    TARGET static double NAME(const double *panels, const double *v, ptrdiff_t d, double *z) {              \
        const expfam_panel *panel = (const expfam_panel *)panels;                                           \
        expfam_panel sum = panel[0] * 0.0;                                                                  \
        ptrdiff_t odd = d % EXPFAM_PANEL, columns = odd ? odd : EXPFAM_PANEL;                               \
        for (; columns <= d; columns += EXPFAM_PANEL, z += EXPFAM_PANEL) {                                  \
            expfam_panel row = panel[0] * 0.0;                                                              \
            EXPFAM_PANEL_PRODUCT(panel, v, odd, columns, row);                                              \
            memcpy(z, &row, sizeof row);                                                                    \
            sum += row * row;                                                                               \
        }                                                                                                   \
        return expfam_panel_sum(&sum);                                                                      \
    }
EXPFAM_INSTANCES(EXPFAM_PANEL_SQUARE, double, expfam_panel_square,
                 (const double *, const double *, ptrdiff_t, double *))

/* Compute the scores of expfam_gauss_scan from blocks that have only constant, half and weight, and from one record for
 * each cluster, `width` apart: its location, padded at its end like x, then its panels. Two panels are processed
 * together, because the entries of v need as many loads as W. `scratch` has d + EXPFAM_PANEL + 8 numbers. */
#define EXPFAM_PANEL_SCAN(NAME, TARGET, VECTOR)                                                             \
    TARGET static int NAME(const double *x, const double *block, const double *record, ptrdiff_t width, ptrdiff_t d, \
                           ptrdiff_t count, double *out, double *scratch) {                                 \
        double *v = (double *)(((uintptr_t)scratch + 63) & ~(uintptr_t)63), worst[EXPFAM_LANES] = {0.0};    \
        ptrdiff_t odd = d % EXPFAM_PANEL, padded = d + expfam_padding(d), single = padded / EXPFAM_PANEL % 2; \
        for (ptrdiff_t start = 0; start < count; start += EXPFAM_LANES, block += 3 * EXPFAM_LANES) {        \
            double squares[EXPFAM_LANES] = {0.0};                                                           \
            ptrdiff_t some = count - start < EXPFAM_LANES ? count - start : EXPFAM_LANES;                   \
            for (ptrdiff_t l = 0; l < some; l++, record += width) {                                         \
                const expfam_panel *panel = (const expfam_panel *)(record + padded);                        \
                expfam_panel sum = panel[0] * 0.0;                                                          \
                ptrdiff_t columns = odd ? odd : EXPFAM_PANEL;                                               \
                for (ptrdiff_t j = 0; j < padded; j += EXPFAM_PANEL)                                        \
                    *(expfam_panel *)(v + j) = *(const expfam_panel *)(x + j) - *(const expfam_panel *)(record + j); \
                if (sizeof(VECTOR) < sizeof(expfam_panel)) { /* two columns of half vectors, not two panels */ \
                    const VECTOR *half = (const VECTOR *)panel;                                             \
                    VECTOR both = half[0] * 0.0;                                                            \
                    double lane[EXPFAM_LANES];                                                              \
                    for (; columns <= d; columns += EXPFAM_PANEL) {                                         \
                        VECTOR a = half[0] * 0.0, b = a;                                                    \
                        for (ptrdiff_t col = 0; col < columns; col++, half += 2) {                          \
                            a += half[0] * v[col];                                                          \
                            b += half[1] * v[col];                                                          \
                        }                                                                                   \
                        both += a * a + b * b;                                                              \
                    }                                                                                       \
                    memcpy(lane, &both, sizeof both);                                                       \
                    squares[l] = lane[0] + lane[1 % EXPFAM_LANES];                                          \
                    continue;                                                                               \
                }                                                                                           \
                if (single) {                                                                               \
                    expfam_panel row = panel[0] * 0.0;                                                      \
                    EXPFAM_PANEL_PRODUCT(panel, v, odd, columns, row);                                      \
                    sum += row * row;                                                                       \
                    columns += EXPFAM_PANEL;                                                                \
                }                                                                                           \
                for (; columns < d; columns += 2 * EXPFAM_PANEL) {                                          \
                    const expfam_panel *next = panel + columns;                                             \
                    expfam_panel a = panel[0] * 0.0, b = a, a1 = a, b1 = a;                                 \
                    ptrdiff_t col = 0;                                                                      \
                    for (; col < odd; col++) {                                                              \
                        a += panel[col] * v[col];                                                           \
                        b += next[col] * v[col];                                                            \
                    }                                                                                       \
                    for (; col + 3 < columns; col += 4) {                                                   \
                        a += panel[col] * v[col];                                                           \
                        b += next[col] * v[col];                                                            \
                        a1 += panel[col + 1] * v[col + 1];                                                  \
                        b1 += next[col + 1] * v[col + 1];                                                   \
                        a += panel[col + 2] * v[col + 2];                                                   \
                        b += next[col + 2] * v[col + 2];                                                    \
                        a1 += panel[col + 3] * v[col + 3];                                                  \
                        b1 += next[col + 3] * v[col + 3];                                                   \
                    }                                                                                       \
                    for (; col < columns; col++) {                                                          \
                        a += panel[col] * v[col];                                                           \
                        b += next[col] * v[col];                                                            \
                    }                                                                                       \
                    for (ptrdiff_t end = 0; end < EXPFAM_PANEL; end++) b1 += next[col + end] * v[col + end]; \
                    a += a1;                                                                                \
                    b += b1;                                                                                \
                    sum += a * a + b * b;                                                                   \
                    panel = next + columns + EXPFAM_PANEL;                                                  \
                }                                                                                           \
                squares[l] = expfam_panel_sum(&sum);                                                        \
            }                                                                                               \
            EXPFAM_SIMD                                                                                     \
            for (ptrdiff_t l = 0; l < EXPFAM_LANES; l++) {                                                  \
                double square = 1.0 + block[2 * EXPFAM_LANES + l] * squares[l];                             \
                worst[l] += square;                                                                         \
                squares[l] = block[l] - block[EXPFAM_LANES + l] * expfam_log1(square);                      \
            }                                                                                               \
            expfam_store(out, start, count, squares, EXPFAM_LANES);                                         \
        }                                                                                                   \
        return expfam_is_wild(worst, EXPFAM_LANES);                                                         \
    }
EXPFAM_LANE_INSTANCES(EXPFAM_PANEL_SCAN, int, expfam_panel_scan,
                      (const double *, const double *, const double *, ptrdiff_t, ptrdiff_t, ptrdiff_t, double *,
                       double *))

/* Replace W by the one of L L' + sign v v', from p = W v with its padding. Unless the determinant changes by a finite
 * factor above `least`, return 1 and change nothing. With t_r = 1 + sign (p_0^2 + ... + p_r^2), row r becomes
 *     sqrt(t_{r-1} / t_r) (w_r - sign p_r / t_{r-1} (p_0 w_0 + ... + p_{r-1} w_{r-1})),
 * because these rows have the inner products of (I + sign p p')^-1. `scratch` has 4 (d + EXPFAM_PANEL) numbers: for
 * each column the sums over the panels above, then t and the numbers that depend on it. */
#define EXPFAM_PANEL_ROTATE(NAME, TARGET)                                                                   \
    TARGET static int NAME(double *panels, const double *p, double sign, double least, ptrdiff_t d, double *scratch) { \
        ptrdiff_t rows = d + expfam_padding(d);                                                             \
        double *carry = scratch, *stretch = carry + rows, *share = stretch + rows, *t = share + rows;       \
        expfam_panel *panel = (expfam_panel *)panels;                                                       \
        t[0] = 1.0;                                                                                         \
        for (ptrdiff_t r = 0; r < rows; r++) t[r + 1] = t[r] + sign * p[r] * p[r];                          \
        if (!(t[rows] > least) || !(t[rows] < EXPFAM_HUGE)) return 1;                                       \
        EXPFAM_SIMD                                                                                         \
        for (ptrdiff_t r = 0; r < rows; r++) {                                                              \
            stretch[r] = sqrt(t[r] / t[r + 1]);                                                             \
            share[r] = -stretch[r] * sign * p[r] / t[r];                                                    \
            carry[r] = 0.0;                                                                                 \
        }                                                                                                   \
        for (ptrdiff_t columns = EXPFAM_PANEL - expfam_padding(d); columns <= d; columns += EXPFAM_PANEL) { \
            double entries[EXPFAM_PANEL][EXPFAM_PANEL];                                                     \
            expfam_panel turn[EXPFAM_PANEL], above = *(const expfam_panel *)share;                          \
            for (ptrdiff_t s = 0; s < EXPFAM_PANEL; s++)                                                    \
                for (ptrdiff_t r = 0; r < EXPFAM_PANEL; r++)                                                \
                    entries[s][r] = r < s ? 0.0 : r == s ? stretch[r] : share[r] * p[s];                    \
            memcpy(turn, entries, sizeof turn);                                                             \
            for (ptrdiff_t j = 0; j < columns; j++, panel++) {                                              \
                const double *old = (const double *)panel;                                                  \
                expfam_panel row = above * carry[j];                                                        \
                double sum = 0.0;                                                                           \
                for (ptrdiff_t s = 0; s < EXPFAM_PANEL; s++) {                                              \
                    row += turn[s] * old[s];                                                                \
                    sum += p[s] * old[s];                                                                   \
                }                                                                                           \
                carry[j] += sum;                                                                            \
                *panel = row;                                                                               \
            }                                                                                               \
            p += EXPFAM_PANEL;                                                                              \
            stretch += EXPFAM_PANEL;                                                                        \
            share += EXPFAM_PANEL;                                                                          \
        }                                                                                                   \
        return 0;                                                                                           \
    }
EXPFAM_INSTANCES(EXPFAM_PANEL_ROTATE, int, expfam_panel_rotate,
                 (double *, const double *, double, double, ptrdiff_t, double *))

/* Compute the panels of W = L^-1 from L by columns and the reciprocals of its diagonal, EXPFAM_PANEL columns of W at a
 * time. `scratch` has EXPFAM_PANEL * d numbers. */
#define EXPFAM_PANEL_INVERT(NAME, TARGET)                                                                   \
    TARGET static void NAME(const double *a, const double *reciprocal, double *panels, ptrdiff_t d, double *scratch) { \
        ptrdiff_t padding = expfam_padding(d);                                                              \
        memset(panels, 0, (size_t)expfam_panel_start(d + padding, padding) * sizeof(double));               \
        for (ptrdiff_t first = 0; first < d; first += EXPFAM_PANEL) {                                       \
            ptrdiff_t some = d - first < EXPFAM_PANEL ? d - first : EXPFAM_PANEL;                           \
            for (ptrdiff_t i = first; i < d; i++) {                                                         \
                expfam_panel sum, *row = (expfam_panel *)scratch;                                           \
                double unit[EXPFAM_PANEL] = {0.0}, *entry;                                                  \
                const double *factor = a + first * d - first * (first - 1) / 2 + i - first;                 \
                if (i - first < EXPFAM_PANEL) unit[i - first] = 1.0;                                        \
                memcpy(&sum, unit, sizeof sum);                                                             \
                for (ptrdiff_t k = first; k < i; k++, row++) {                                              \
                    sum -= *factor * *row;                                                                  \
                    factor += d - k - 1;                                                                    \
                }                                                                                           \
                *row = sum * reciprocal[i];                                                                 \
                entry = panels + expfam_panel_start(i + padding, padding) + (i + padding) % EXPFAM_PANEL;   \
                for (ptrdiff_t c = 0; c < some && first + c <= i; c++)                                      \
                    entry[(first + c) * EXPFAM_PANEL] = ((const double *)row)[c];                           \
            }                                                                                               \
        }                                                                                                   \
    }
EXPFAM_INSTANCES(EXPFAM_PANEL_INVERT, void, expfam_panel_invert,
                 (const double *, const double *, double *, ptrdiff_t, double *))
#endif

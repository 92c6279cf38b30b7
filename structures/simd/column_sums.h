/* One pass over rows, with the columns in lanes: extremes of columns, and sums whose order does not matter.
 *
 * A term x is split into pieces by h = (x + c) - c, where c is 1.5 * 2^52 units: h is x rounded to a multiple of the
 * unit, x - h is exact and becomes the term of the next, finer piece. The unit of a piece is so large that all partial
 * sums of its pieces are exact, hence the same in any order (Demmel and Hida 2003 call such sums reproducible). A
 * product must not be fused with the sum after it: rows would then depend on the loop that holds them. Cells that hold
 * NaN are left out. Instances: baseline, AVX2, AVX-512; their results are the same bits.
 */
#ifndef EXPFAM_COLUMN_SUMS_H
#define EXPFAM_COLUMN_SUMS_H
#include "dispatch.h"
#include "prefetch.h"

/* Ask for cells of rows that come later: the processor itself stops asking at the end of each page. */
#define EXPFAM_ROWS_AHEAD(rows, stride, n, REAL)                                                            \
    do {                                                                                                    \
        const ptrdiff_t ahead = 1 + EXPFAM_AHEAD_BYTES / ((n) * (ptrdiff_t)sizeof(REAL));                   \
        expfam_prefetch((const char *)(rows) + ahead * (stride) * (ptrdiff_t)sizeof(REAL), (n) * (ptrdiff_t)sizeof(REAL)); \
    } while (0)
enum { EXPFAM_AHEAD_BYTES = 4096 };

/* Lower low[j] and raise high[j] to the values of column j, and add the number of its values to count[j]. */
#define EXPFAM_COLUMN_EXTREMES(NAME, TARGET, REAL)                                                          \
    TARGET static void NAME(const REAL *rows, ptrdiff_t n_rows, ptrdiff_t stride, ptrdiff_t n, REAL *low, REAL *high, \
                            double *count) {                                                                \
        for (ptrdiff_t i = 0; i < n_rows; i++, rows += stride) {                                            \
            EXPFAM_ROWS_AHEAD(rows, stride, n, REAL);                                                       \
            EXPFAM_SIMD                                                                                     \
            for (ptrdiff_t j = 0; j < n; j++) {                                                             \
                const REAL x = rows[j];                                                                     \
                low[j] = x < low[j] ? x : low[j];                                                           \
                high[j] = x > high[j] ? x : high[j];                                                        \
                count[j] += x == x ? 1.0 : 0.0;                                                             \
            }                                                                                               \
        }                                                                                                   \
    }
#define EXPFAM_EXTREMES_FLOAT(NAME, TARGET) EXPFAM_COLUMN_EXTREMES(NAME, TARGET, float)
#define EXPFAM_EXTREMES_DOUBLE(NAME, TARGET) EXPFAM_COLUMN_EXTREMES(NAME, TARGET, double)
EXPFAM_INSTANCES(EXPFAM_EXTREMES_FLOAT, void, expfam_float_extremes,
                 (const float *, ptrdiff_t, ptrdiff_t, ptrdiff_t, float *, float *, double *))
EXPFAM_INSTANCES(EXPFAM_EXTREMES_DOUBLE, void, expfam_double_extremes,
                 (const double *, ptrdiff_t, ptrdiff_t, ptrdiff_t, double *, double *, double *))

/* Add the terms x - shift[j], or (x - shift[j] - centre[j])^2 if SQUARED, to three sums of pieces: the sum of piece p of
 * column j is at sums[p * pitch + j], the number c at lift[p * pitch + j]. */
#define EXPFAM_COLUMN_TERMS(NAME, TARGET, REAL, SQUARED)                                                    \
    TARGET EXPFAM_UNFUSED static void NAME(const REAL *rows, ptrdiff_t n_rows, ptrdiff_t stride, ptrdiff_t n, \
                                           ptrdiff_t pitch, const double *shift, const double *centre,      \
                                           const double *lift, double *sums) {                              \
        EXPFAM_UNFUSED_BODY                                                                                 \
        for (ptrdiff_t i = 0; i < n_rows; i++, rows += stride) {                                            \
            EXPFAM_ROWS_AHEAD(rows, stride, n, REAL);                                                       \
            EXPFAM_SIMD                                                                                     \
            for (ptrdiff_t j = 0; j < n; j++) {                                                             \
                const double x = (double)rows[j];                                                           \
                double term = x - shift[j], piece;                                                          \
                if (SQUARED) term -= centre[j], term *= term;                                               \
                term = x == x ? term : 0.0;                                                                 \
                piece = (term + lift[j]) - lift[j];                                                         \
                sums[j] += piece;                                                                           \
                term -= piece;                                                                              \
                piece = (term + lift[pitch + j]) - lift[pitch + j];                                                 \
                sums[pitch + j] += piece;                                                                       \
                term -= piece;                                                                              \
                sums[2 * pitch + j] += (term + lift[2 * pitch + j]) - lift[2 * pitch + j];                              \
            }                                                                                               \
        }                                                                                                   \
    }
#define EXPFAM_TERMS_FLOAT(NAME, TARGET) EXPFAM_COLUMN_TERMS(NAME, TARGET, float, 0)
#define EXPFAM_TERMS_DOUBLE(NAME, TARGET) EXPFAM_COLUMN_TERMS(NAME, TARGET, double, 0)
#define EXPFAM_SQUARES_FLOAT(NAME, TARGET) EXPFAM_COLUMN_TERMS(NAME, TARGET, float, 1)
#define EXPFAM_SQUARES_DOUBLE(NAME, TARGET) EXPFAM_COLUMN_TERMS(NAME, TARGET, double, 1)
#define EXPFAM_TERMS_ARGUMENTS(REAL)                                                                        \
    (const REAL *, ptrdiff_t, ptrdiff_t, ptrdiff_t, ptrdiff_t, const double *, const double *, const double *, double *)
EXPFAM_INSTANCES(EXPFAM_TERMS_FLOAT, void, expfam_float_terms, EXPFAM_TERMS_ARGUMENTS(float))
EXPFAM_INSTANCES(EXPFAM_TERMS_DOUBLE, void, expfam_double_terms, EXPFAM_TERMS_ARGUMENTS(double))
EXPFAM_INSTANCES(EXPFAM_SQUARES_FLOAT, void, expfam_float_squares, EXPFAM_TERMS_ARGUMENTS(float))
EXPFAM_INSTANCES(EXPFAM_SQUARES_DOUBLE, void, expfam_double_squares, EXPFAM_TERMS_ARGUMENTS(double))

/* Add the terms x of each row to the three sums of pieces of its label, in a table (clusters, 3, n), and take them from
 * those of its label before, unless `old` is NULL. Rows of negative labels are left out. The pieces of -x are those of x
 * with the other sign. */
#define EXPFAM_SPLIT_TERM(j)                                                                                \
    const double x = row[j], term = x == x ? x : 0.0;                                                       \
    const double first = (term + lift[j]) - lift[j], rest = term - first;                                   \
    const double second = (rest + lift[n + j]) - lift[n + j], last = rest - second;                         \
    const double third = (last + lift[2 * n + j]) - lift[2 * n + j];
#define EXPFAM_LABEL_TERMS(NAME, TARGET)                                                                    \
    TARGET EXPFAM_UNFUSED static void NAME(const double *rows, ptrdiff_t n_rows, ptrdiff_t n, const int32_t *old, \
                                           const int32_t *labels, const double *lift, double *table) {      \
        EXPFAM_UNFUSED_BODY                                                                                 \
        for (ptrdiff_t i = 0; i < n_rows; i++) {                                                            \
            if (labels[i] < 0) continue;                                                                    \
            const double *row = rows + i * n;                                                               \
            double *into = table + 3 * n * (ptrdiff_t)labels[i];                                            \
            if (!old) {                                                                                     \
                EXPFAM_SIMD                                                                                 \
                for (ptrdiff_t j = 0; j < n; j++) {                                                         \
                    EXPFAM_SPLIT_TERM(j)                                                                    \
                    into[j] += first, into[n + j] += second, into[2 * n + j] += third;                      \
                }                                                                                           \
                continue;                                                                                   \
            }                                                                                               \
            double *from = table + 3 * n * (ptrdiff_t)old[i];                                               \
            if (from == into) continue;                                                                     \
            EXPFAM_SIMD                                                                                     \
            for (ptrdiff_t j = 0; j < n; j++) {                                                             \
                EXPFAM_SPLIT_TERM(j)                                                                        \
                from[j] -= first, from[n + j] -= second, from[2 * n + j] -= third;                          \
                into[j] += first, into[n + j] += second, into[2 * n + j] += third;                          \
            }                                                                                               \
        }                                                                                                   \
    }
EXPFAM_INSTANCES(EXPFAM_LABEL_TERMS, void, expfam_label_terms,
                 (const double *, ptrdiff_t, ptrdiff_t, const int32_t *, const int32_t *, const double *, double *))
#endif

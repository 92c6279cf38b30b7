"""Steps of k-means on few means, for nested divisions of rows.

They are rows less a centre, nearest means, their sums, and their cells. A division of a hundred thousand rows makes a
hundred calls of each, many of them for some hundred rows.
"""

import numpy as np

from libc.stdint cimport uint8_t

from expfam.structures.simd.prototypes cimport expfam_biased_tops

cdef enum:
    TOP = 16                    # entries whose largest `expfam_biased_tops` writes
    MOST_TOPS = 16
    MOST_MEANS = 256            # TOP MOST_TOPS: numbers of means are bytes


def centred_rows(const float[:, ::1] points, const Py_ssize_t[::1] rows, const float[::1] centre, float[:, ::1] out):
    """Write some rows less a centre to the first rows of `out`: float32."""
    cdef Py_ssize_t i, j
    cdef const float *x
    if out.shape[0] < rows.shape[0] or out.shape[1] != points.shape[1] or centre.shape[0] != points.shape[1]:
        raise ValueError("the rows do not fit")
    with nogil:
        for i in range(rows.shape[0]):
            x = &points[rows[i], 0]
            for j in range(points.shape[1]):
                out[i, j] = x[j] - centre[j]


def best_means(float[:, ::1] products, const float[::1] bias, uint8_t[::1] out):
    """Write the number of the best mean of each row; of equal ones it is the first.

    Parameters
    ----------
    products : (M, k) float32 ndarray
        Products of rows with at most 256 means; the bias is added to them.
    bias : (k,) float32 ndarray
        Minus half the squared length of each mean: the largest sum is that of the nearest mean.
    out : (M,) uint8 ndarray
    """
    cdef Py_ssize_t i, j, b, k = products.shape[1]
    cdef float tops[MOST_TOPS]
    cdef float best
    if not 0 < k <= MOST_MEANS or bias.shape[0] != k or out.shape[0] != products.shape[0]:
        raise ValueError("the means do not fit")
    with nogil:
        for i in range(products.shape[0]):
            best = expfam_biased_tops(&products[i, 0], &bias[0], tops, k)
            b = 0
            while (b + 1) * TOP < k and tops[b] != best:
                b += 1
            j = b * TOP
            while j < k - 1 and products[i, j] != best:
                j += 1
            out[i] = <uint8_t> j


def sums_by_mean(const float[:, ::1] sample, const uint8_t[::1] nearest, Py_ssize_t k):
    """Return how many rows each of k means has, and their sums, added in the order of rows.

    They are (k,) and (k, d) float32.
    """
    sizes, sums = np.zeros(k, dtype=np.float32), np.zeros((k, sample.shape[1]), dtype=np.float32)
    cdef float[::1] size = sizes
    cdef float[:, ::1] sum_ = sums
    cdef Py_ssize_t i, j
    cdef float *row
    with nogil:
        for i in range(sample.shape[0]):
            size[nearest[i]] += 1.0
            row = &sum_[nearest[i], 0]
            for j in range(sample.shape[1]):
                row[j] += sample[i, j]
    return sizes, sums


def cells_of_means(const uint8_t[::1] nearest, const Py_ssize_t[::1] rows, Py_ssize_t k):
    """Return the rows of each of k means that has any, in their order: list of intp arrays."""
    order, ends = np.empty(rows.shape[0], dtype=np.intp), np.zeros(k + 1, dtype=np.intp)
    cdef Py_ssize_t[::1] to = order, end = ends
    cdef Py_ssize_t i
    with nogil:
        for i in range(rows.shape[0]):
            end[nearest[i] + 1] += 1
        for i in range(k):
            end[i + 1] += end[i]
        for i in range(rows.shape[0]):
            to[end[nearest[i]]] = rows[i]
            end[nearest[i]] += 1
    # after the rows are written, each end is that of its own cell
    return [cell for cell in np.split(order, ends[: k - 1]) if len(cell)]

# Scores of Student's t densities, and bounds on how much a merge of two clusters raises the density of any datum.

from libc.math cimport INFINITY, fabs, log, log1p, sqrt

from expfam.families.growth cimport growth_line

cdef enum:
    N_SLOPES = 6                    # number of slopes that lowest_line compares


cdef inline double log1p_square(double weight, double t) noexcept nogil:
    """Return log(1 + weight t^2), also if t^2 would overflow."""
    cdef double u = sqrt(weight) * fabs(t)
    return 2.0 * log(u) if u > 1e100 else log1p(u * u)


# A density is proportional to (1 + w |x - m|^2)^-half, over all columns or over one of several independent ones.
cdef struct growth_part:
    double weight, more             # w before and after the merge
    double half, further            # half before and after the merge
    double shift                    # length of the change of m
    double split                    # weight of the square about the later m in the bound of |x - m|^2


cdef inline void split_squares(growth_part *c) noexcept nogil:
    """Set `split`; the bound is lowest two scales away."""
    c.split = max(0.5 * fabs(c.shift) * sqrt(2.0 * c.weight * c.half), 1e-9)


cdef inline double highest_gain(const growth_part *c, double slope) noexcept nogil:
    """Return a bound of the rise of the log density of one part, over all data.

    The rise is (1 - slope) half log(1 + w |y|^2) - further log(1 + w' |y - shift|^2), for any y.
    It uses |y|^2 <= (1 + split) v + (1 + 1 / split) |shift|^2 with v = |y - shift|^2. The v >= 0 at which this bound is
    largest has a closed form, because the derivative changes its sign at most once.
    """
    cdef double half = (1.0 - slope) * c.half, base = 1.0 + c.weight * (1.0 + 1.0 / c.split) * c.shift * c.shift
    cdef double rise = c.weight * (1.0 + c.split)
    cdef double v = (half * rise - c.further * c.more * base) / (c.more * rise * (c.further - half))
    if not v > 0.0:
        v = 0.0
    return half * log(base + rise * v) - c.further * log1p(c.more * v)


cdef inline double lowest_line(const growth_part *parts, Py_ssize_t n_parts, double top, double later_top,
                               double rounding, double ratio, double depth, growth_line *out) noexcept nogil:
    """Compute the lines of several slopes, write the line that is lowest at `depth` and return its height there.

    `top` and `later_top` are the log densities at the locations before and after the merge; `ratio` is the share of
    the smaller cluster in the data of both.
    """
    cdef double slope, level, lowest = INFINITY
    cdef Py_ssize_t f
    cdef int i
    for i in range(N_SLOPES):
        slope = ratio * 0.5 * (1 << i)
        if slope > 0.75:
            break
        level = later_top - top + slope * top
        for f in range(n_parts):
            level += highest_gain(parts + f, slope)
        if (1.0 - slope) * depth + level < lowest:
            lowest = (1.0 - slope) * depth + level
            out.slope = slope
            out.level = level + 64.0 * 2.0 ** -52 * rounding
    return lowest

"""Sums of log evidences of Gaussian clusters as functions of one hyper-parameter.

Learning asks for them tens of times for a few clusters, where each NumPy call takes longer than the numbers.
"""

import numpy as np
from scipy.special import gammaln

from cython cimport final
from libc.math cimport INFINITY, NAN, exp, fabs, isfinite, isnan, lgamma, log, log1p

from expfam.amounts import counted
from expfam.families import slice_sampling
from expfam.structures.simd.logs cimport expfam_log

cdef enum:
    TOGETHER = 128      # logarithms in one call
cdef Py_ssize_t MOST_STEPS = slice_sampling.MOST_STEPS
cdef double LEAST_WIDTH = slice_sampling.LEAST_WIDTH


def posterior_of_columns(const double[:, :] count, const double[:, :] S, location, strength, shape, rate):
    """Return the posterior of the columns of each cluster under normal-gamma priors.

    Parameters
    ----------
    count : (K, 1) or (K, d) float64 ndarray
        Number of data of each cluster, or of each of its columns.
    S : (K, 2 d) float64 ndarray
        Sums of the centred rows and of their squares.
    location, strength, shape, rate : (d,) float64 ndarray, or one number
        Of the prior; the location is centred.

    Returns
    -------
    strength, location, shape, rate : (K, d) float64 ndarray
    bad : int
        First cluster with a rate that is not finite and positive; -1 if there is none.
    """
    cdef Py_ssize_t K = S.shape[0], d = S.shape[1] // 2, k, f, bad = -1
    if count.shape[0] != K or count.shape[1] not in (1, d) or S.shape[1] != 2 * d:
        raise ValueError(f"counts of shape {np.shape(count)} and sums of shape {np.shape(S)} do not agree")
    cdef const double[::1] at = of_columns(location, d), strength0 = of_columns(strength, d)
    cdef const double[::1] shape0 = of_columns(shape, d), rate0 = of_columns(rate, d)
    strengths, locations, shapes, rates = np.empty((K, d)), np.empty((K, d)), np.empty((K, d)), np.empty((K, d))
    cdef double[:, ::1] new_strength = strengths, new_location = locations, new_shape = shapes, new_rate = rates
    cdef double n, about, second
    for k in range(K):
        for f in range(d):
            n = count[k, f if count.shape[1] > 1 else 0]
            about = S[k, f] - n * at[f]
            second = S[k, d + f] - at[f] * (S[k, f] + about)
            new_strength[k, f] = strength0[f] + n
            new_location[k, f] = at[f] + about / new_strength[k, f]
            new_shape[k, f] = shape0[f] + 0.5 * n
            new_rate[k, f] = rate0[f] + 0.5 * (second - about * about / new_strength[k, f])
            if bad < 0 and not 0.0 < new_rate[k, f] < INFINITY:
                bad = k
    return strengths, locations, shapes, rates, bad


def evidence_of_columns(const double[:, :] count, const double[:, :] S, location, strength, shape, rate):
    """Return the log evidence of each cluster and column under normal-gamma priors.

    The parameters are those of `posterior_of_columns`. All logarithms and gamma functions are made in two calls of
    NumPy, which round in the same way for any number of clusters.

    Returns
    -------
    evidence : (K, d) float64 ndarray
        Without the log base measure.
    bad : int
        First cluster with a rate that is not finite and positive; -1 if there is none.
    """
    cdef Py_ssize_t K = S.shape[0], d = S.shape[1] // 2, k, f, bad = -1
    cdef const double[::1] at = of_columns(location, d), strength0 = of_columns(strength, d)
    cdef const double[::1] shape0 = of_columns(shape, d), rate0 = of_columns(rate, d)
    if count.shape[0] != K or count.shape[1] not in (1, d) or S.shape[1] != 2 * d:
        raise ValueError(f"counts of shape {np.shape(count)} and sums of shape {np.shape(S)} do not agree")
    shapes, terms, found = np.empty((K + 1, d)), np.empty((2 * K + 1, d)), np.empty((K, d))
    cdef double[:, ::1] gamma = shapes, logs = terms, evidence = found      # of the prior in the last rows
    cdef double n, about, second, own
    for f in range(d):
        gamma[K, f], logs[2 * K, f] = shape0[f], rate0[f]
    for k in range(K):
        for f in range(d):
            n = count[k, f if count.shape[1] > 1 else 0]
            own = strength0[f] + n
            about = S[k, f] - n * at[f]
            second = S[k, d + f] - at[f] * (S[k, f] + about)
            gamma[k, f] = shape0[f] + 0.5 * n
            logs[k, f] = rate0[f] + 0.5 * (second - about * about / own)
            logs[K + k, f] = strength0[f] / own
            if bad < 0 and not 0.0 < logs[k, f] < INFINITY:
                bad = k
    if bad >= 0:
        return found, bad
    gammaln(shapes, out=shapes)
    np.log(terms, out=terms)
    for k in range(K):
        for f in range(d):
            n = count[k, f if count.shape[1] > 1 else 0]
            evidence[k, f] = gamma[k, f] - gamma[K, f]
            evidence[k, f] += shape0[f] * logs[2 * K, f] - (shape0[f] + 0.5 * n) * logs[k, f]
            evidence[k, f] += 0.5 * logs[K + k, f]
    return found, bad


def evidence_by_column(const double[:, :] count, const double[:, :] S, location, strength, shape, rate):
    """Return the log evidence of all clusters in each column under normal-gamma priors.

    The parameters are those of `posterior_of_columns`.

    Returns
    -------
    evidence : (d,) float64 ndarray
        Without the log base measure.
    bad : int
        First cluster with a rate that is not finite and positive; -1 if there is none.
    """
    cdef Py_ssize_t K = S.shape[0], d = S.shape[1] // 2, bad
    cdef const double[::1] at = of_columns(location, d), strength0 = of_columns(strength, d)
    cdef const double[::1] shape0 = of_columns(shape, d), rate0 = of_columns(rate, d)
    sums = np.empty(d)
    if count.shape[0] != K or count.shape[1] not in (1, d) or S.shape[1] != 2 * d:
        raise ValueError(f"counts of shape {np.shape(count)} and sums of shape {np.shape(S)} do not agree")
    bad = sum_evidence(count, S, at, strength0, shape0, rate0, sums)
    return sums, bad


cdef Py_ssize_t sum_evidence(const double[:, :] count, const double[:, :] S, const double[::1] at,
                             const double[::1] strength0, const double[::1] shape0, const double[::1] rate0,
                             double[::1] total) noexcept:
    """Write what `evidence_by_column` returns to `total`; return the first bad cluster, or -1."""
    cdef Py_ssize_t k, f, bad = -1
    cdef double n, about, second, after, last = -1.0, last_shape = -1.0, gammas = 0.0
    total[:] = 0.0
    for k in range(S.shape[0]):
        for f in range(at.shape[0]):
            n = count[k, f if count.shape[1] > 1 else 0]
            if n != last or shape0[f] != last_shape:        # most columns have the same shape
                last, last_shape, gammas = n, shape0[f], lgamma(shape0[f] + 0.5 * n) - lgamma(shape0[f])
            about = S[k, f] - n * at[f]
            second = S[k, at.shape[0] + f] - at[f] * (S[k, f] + about)
            after = rate0[f] + 0.5 * (second - about * about / (strength0[f] + n))
            if bad < 0 and not 0.0 < after < INFINITY:
                bad = k
            total[f] += gammas - 0.5 * n * log(after)
            total[f] += shape0[f] * log(rate0[f] / after) + 0.5 * log(strength0[f] / (strength0[f] + n))
    return bad


cdef class _Evidence:
    """Sum of log evidences as a function of the log t of a factor, up to a constant.

    Attributes
    ----------
    is_checked : bool
        Whether the value is NaN where the evidence of a cluster is not a number.
    """

    cdef readonly bint is_checked

    cdef double value(self, double t) noexcept:
        return NAN

    def __call__(self, double t):
        """Return the value at t, or NaN if an argument of a logarithm is not positive and normal."""
        return self.value(t)

    cdef double target(self, double t, bint *is_sound) noexcept:
        """Return the value plus the log density of the factor's prior."""
        cdef double value = self.value(t) - 0.5 * (t / 3.0) ** 2
        if isnan(value):
            is_sound[0] = False
        return value

    cpdef double climb(self, double t, double low, double high, double tol=0.03):
        """Return a mode of the value plus the factor's log prior, reached from t uphill.

        Parameters
        ----------
        t : float
        low, high : float
            Bounds of the mode.
        tol : float
            The mode is found within it.

        Returns
        -------
        float
            What `climb_to_mode` returns for the same target; NaN where a value on the way is NaN.
        """
        cdef bint is_sound = True
        cdef double best = min(max(t, low), high), step = 0.5, value, left, right, at_left, at_right, proposal, found
        value = self.target(best, &is_sound)
        left, right = max(best - step, low), min(best + step, high)
        at_left = self.target(left, &is_sound) if left < best else -INFINITY
        at_right = self.target(right, &is_sound) if right > best else -INFINITY
        while is_sound and (at_left > value or at_right > value):
            step *= 2.0
            if at_right >= at_left:
                left, at_left, best, value = best, value, right, at_right
                right = min(best + step, high)
                at_right = self.target(right, &is_sound) if right > best else -INFINITY
            else:
                right, at_right, best, value = best, value, left, at_left
                left = max(best - step, low)
                at_left = self.target(left, &is_sound) if left < best else -INFINITY
        while is_sound and right - left > 2.0 * tol:
            proposal = inner_point(left, best, right, at_left, value, at_right, tol)
            found = self.target(proposal, &is_sound)
            if found > value:
                if proposal > best:
                    left, at_left = best, value
                else:
                    right, at_right = best, value
                best, value = proposal, found
            elif proposal > best:
                right, at_right = proposal, found
            else:
                left, at_left = proposal, found
            if max(best - left, right - best) <= tol:
                break
        return best if is_sound else NAN


cdef double inner_point(double left, double best, double right, double at_left, double value, double at_right,
                        double tol) noexcept:
    """Return a point to try next: the top of a parabola, or a third of the longer side."""
    cdef double down = best - left, up = right - best, rise, fall, top
    if isfinite(at_left) and isfinite(at_right) and down > 0.0 and up > 0.0:
        rise, fall = (value - at_left) / down, (value - at_right) / up
        if rise + fall > 0.0:
            top = best + 0.5 * (rise * up - fall * down) / (rise + fall)
            if fabs(top - best) < tol:      # else the longer side would never shrink
                top = best + tol if up > down else best - tol
            if left < top < right:
                return top
    return best + 0.38 * up if up > down else best - 0.38 * down


cdef class _ColumnEvidence(_Evidence):
    """Evidence of independent columns: posterior shapes, sums about the prior location.

    Parameters
    ----------
    count, S
        As of `posterior_of_columns`.
    location, shape : (d,) float64 ndarray
        Prior location, centred, and prior shape.
    other : (d,) float64 ndarray
        The other hyper-parameter, which stays.
    base : (d,) float64 ndarray
        Values whose factor it is.
    """

    cdef double[:, ::1] shape, own
    cdef const double[::1] base

    def __init__(self, const double[:, :] count, const double[:, :] S, location, shape, other, base):
        cdef Py_ssize_t d = S.shape[1] // 2
        cdef const double[::1] at = of_columns(location, d), own_shape = of_columns(shape, d)
        cdef const double[::1] fixed = of_columns(other, d)
        self.base, self.is_checked = of_columns(base, d), True
        if count.shape[0] != S.shape[0] or count.shape[1] not in (1, d) or S.shape[1] != 2 * d:
            raise ValueError(f"counts of shape {np.shape(count)} and sums of shape {np.shape(S)} do not agree")
        self.shape, self.own = np.empty((S.shape[0], d)), np.empty((S.shape[0], d))
        self.prepare(d)
        self.fill(count, S, at, own_shape, fixed)

    cdef void fill(self, const double[:, :] count, const double[:, :] S, const double[::1] at,
                   const double[::1] own_shape, const double[::1] fixed) noexcept:
        """Keep the sums of all clusters."""
        cdef Py_ssize_t k, f, d = at.shape[0]
        cdef double n, about
        for k in range(S.shape[0]):
            for f in range(d):
                n = count[k, f if count.shape[1] > 1 else 0]
                about = S[k, f] - n * at[f]
                self.shape[k, f] = own_shape[f] + 0.5 * n
                self.keep(k, f, n, about, S[k, d + f] - at[f] * (S[k, f] + about), own_shape[f], fixed[f])

    cdef int prepare(self, Py_ssize_t d) except -1:
        """Make further arrays of the size of `own`."""
        return 0

    cdef void keep(self, Py_ssize_t k, Py_ssize_t f, double n, double about, double second, double shape,
                   double other) noexcept:
        """Keep what does not depend on t, of the sums about the prior location and of their squares."""


def of_columns(value, Py_ssize_t d):
    """Return a number for each column."""
    array = np.asarray(value, dtype=np.float64)
    return np.ascontiguousarray(array if array.shape == (d,) else np.broadcast_to(array, (d,)))


@final
cdef class RateEvidence(_ColumnEvidence):
    """Sum of log evidences along the log t of the factor of the rates; `other` are strengths."""

    cdef double slope

    cdef void keep(self, Py_ssize_t k, Py_ssize_t f, double n, double about, double second, double shape,
                   double other) noexcept:
        self.own[k, f] = 0.5 * (second - about * about / (other + n))
        self.slope = shape if k == 0 and f == 0 else self.slope + shape

    cdef double value(self, double t) noexcept:
        cdef double[TOGETHER] rates
        cdef double factor = exp(t), total = self.slope * t
        cdef Py_ssize_t k, f, start, stop, j, d = self.base.shape[0]
        for k in range(self.own.shape[0]):
            for start in range(0, d, TOGETHER):
                stop = min(start + TOGETHER, d)
                for f in range(start, stop):
                    rates[f - start] = self.own[k, f] + self.base[f] * factor
                    if not 1e-300 < rates[f - start] < 1e300:
                        return NAN
                expfam_log(rates, rates, stop - start)
                for j in range(stop - start):
                    total -= self.shape[k, start + j] * rates[j]
        return total


@final
cdef class StrengthEvidence(_ColumnEvidence):
    """Sum of log evidences along the log t of the factor of the strengths; `other` are rates."""

    cdef double[:, ::1] squares, count

    cdef int prepare(self, Py_ssize_t d) except -1:
        self.squares, self.count = np.empty((len(self.own), d)), np.empty((len(self.own), d))
        return 0

    cdef void keep(self, Py_ssize_t k, Py_ssize_t f, double n, double about, double second, double shape,
                   double other) noexcept:
        self.own[k, f], self.squares[k, f], self.count[k, f] = other + 0.5 * second, 0.5 * about * about, n

    cdef double value(self, double t) noexcept:
        cdef double[2 * TOGETHER] terms
        cdef double factor = exp(t), total = 0.0, before, after, share, rate
        cdef Py_ssize_t k, f, start, stop, j, d = self.base.shape[0], size
        for k in range(self.own.shape[0]):
            for start in range(0, d, TOGETHER):
                stop, size = min(start + TOGETHER, d), min(start + TOGETHER, d) - start
                for f in range(start, stop):
                    before = self.base[f] * factor
                    after = before + self.count[k, f]
                    share, rate = before / after, self.own[k, f] - self.squares[k, f] / after
                    if not (1e-300 < share < 1e300 and 1e-300 < rate < 1e300):
                        return NAN
                    terms[f - start], terms[size + f - start] = share, rate
                expfam_log(terms, terms, 2 * size)
                for j in range(size):
                    total += 0.5 * terms[j] - self.shape[k, start + j] * terms[size + j]
        return total


cdef class ColumnHyper:
    """Hyper-parameters of independent columns that are learned from the statistics of clusters.

    Parameters
    ----------
    count : (K, 1) float64 ndarray
        Number of data of each cluster.
    S : (K, 2 d) float64 ndarray
        Sums of the centred rows and of their squares.
    prior : tuple of four (d,) float64 ndarray
        Location, strength, shape and rate; the location is centred.
    alike : (d,) float64 ndarray
        1 for columns that are alike in all clusters, else 0.
    factors : dict of str to float
        Learned factors of "mean_strength" and "rate".

    Attributes
    ----------
    factors : dict of str to float
    """

    cdef readonly dict factors
    cdef const double[:, :] count, S, own_sums
    cdef const double[::1] location, shape, own_location, own_shape
    cdef double[::1] strength, rate, alike, base, evidence
    cdef object own
    cdef RateEvidence by_rate
    cdef StrengthEvidence by_strength

    def __init__(self, const double[:, :] count, const double[:, :] S, prior, alike, factors):
        cdef Py_ssize_t d = S.shape[1] // 2
        if count.shape[0] != S.shape[0] or count.shape[1] != 1 or S.shape[1] != 2 * d:
            raise ValueError(f"counts of shape {np.shape(count)} and sums of shape {np.shape(S)} do not agree")
        location, strength, shape, rate = prior
        self.count, self.S, self.factors = count, S, dict(factors)
        self.location, self.shape = of_columns(location, d), of_columns(shape, d)
        self.strength, self.rate = np.array(of_columns(strength, d)), np.array(of_columns(rate, d))
        self.alike = np.array(of_columns(alike, d))
        self.base, self.evidence = np.empty(d), np.empty(d)

    def strength_bounds(self, double low, double high):
        """Return the bounds of the factor of the strengths.

        They are those of `RealFamily._bounds_from`, from the same values at binding.
        """
        cdef double factor = self.factors.get("mean_strength", 1.0), base, least = INFINITY, largest = -INFINITY
        cdef Py_ssize_t f
        for f in range(self.strength.shape[0]):
            base = self.strength[f] / factor
            least, largest = min(least, base), max(largest, base)
        return min(1.0, low / least), max(1.0, high / largest)

    def least_rate(self, const double[::1] floor):
        """Return the least factor of the rates at which each prior variance reaches its floor.

        It is 0 without floors.
        """
        cdef double factor = self.factors.get("rate", 1.0), largest = 0.0, above
        cdef Py_ssize_t f
        if floor.shape[0] != self.rate.shape[0]:
            raise ValueError(f"{counted(floor.shape[0], 'floor')} of {counted(self.rate.shape[0], 'rate')}")
        for f in range(floor.shape[0]):
            above = self.shape[f] - 1.0
            largest = max(largest, floor[f] / (self.rate[f] / factor / (above if above > 0.5 else 0.5)))
        return min(1.0, largest)

    def values(self, name):
        """Return the present values of a hyper-parameter: (d,) float64 ndarray."""
        return np.array(self._values(name))

    cdef double[::1] _values(self, name):
        return self.rate if name == "rate" else self.strength if name == "mean_strength" else self.alike

    cpdef bint set_alike(self, const double[::1] alike):
        """Take other columns to be alike; tell whether any differ."""
        cdef bint differs = False
        cdef Py_ssize_t f
        for f in range(alike.shape[0]):
            if (alike[f] > 0.0) != (self.alike[f] > 0.0):
                differs = True
        if differs:
            self.alike[:] = alike
            self.own = self.by_rate = self.by_strength = None
        return differs

    cpdef Py_ssize_t measure(self):
        """Compute the evidence of each column if it is not alike; return a bad cluster, or -1."""
        return sum_evidence(self.count, self.S, self.location, self.strength, self.shape, self.rate, self.evidence)

    def log_odds(self, of_alike, double prior):
        """Return the log odds of each column to be alike, after `measure`.

        `of_alike` (d,) are log evidences of the columns if they are alike, and `prior` are the log odds of all.
        """
        return of_alike - np.asarray(self.evidence) + prior

    cdef _ColumnEvidence along(self, name):
        """Return the evidence along a factor; None where all columns are alike."""
        cdef _ColumnEvidence found
        cdef double[::1] other
        cdef double factor = self.factors.get(name, 1.0)
        cdef bint is_rate = name == "rate"
        cdef Py_ssize_t f, d = self.location.shape[0]
        values, other = self._values(name), self.strength if is_rate else self.rate
        for f in range(d):
            self.base[f] = values[f] / factor
        if self.own is None:
            self.own = (np.asarray(self.alike) == 0.0).nonzero()[0]
            self.own_location, self.own_shape, self.own_sums = self.location, self.shape, self.S
            if self.own.size < d:
                self.own_location = np.asarray(self.location)[self.own]
                self.own_shape = np.asarray(self.shape)[self.own]
                self.own_sums = np.asarray(self.S)[:, np.append(self.own, self.own + d)].copy()
        if not self.own.size:
            return None
        found = self.by_rate if is_rate else self.by_strength
        base = self.base
        if self.own.size < d:
            base, other = np.asarray(base)[self.own], np.asarray(other)[self.own]
        if found is None:
            given = [np.asarray(each) for each in (self.own_location, self.own_shape, other, base)]
            found = (RateEvidence if is_rate else StrengthEvidence)(self.count, self.own_sums, *given)
            if is_rate:
                self.by_rate = found
            else:
                self.by_strength = found
        else:
            found.base = base
            found.fill(self.count, self.own_sums, self.own_location, self.own_shape, other)
        return found

    cdef int move(self, name, double t) except -1:
        """Give a hyper-parameter the factor exp(t), after `along`."""
        cdef double factor = np.exp(t)
        cdef double[::1] values = self._values(name)
        cdef Py_ssize_t f
        for f in range(values.shape[0]):
            values[f] = self.base[f] * factor
        self.factors[name] = factor
        return 0

    def fit(self, bounds, const double[::1] of_alike, double prior, Py_ssize_t most_rounds, double settled):
        """Move hyper-parameters to their modes, one after the other in a few rounds.

        Parameters
        ----------
        bounds : dict of str to pair of float
            Of the logs of the factors of what is moved, in that order; "alike" has none.
        of_alike, prior : (d,) float64 ndarray, float
            See `log_odds`.
        most_rounds : int
        settled : float
            Change of the log of a factor below which no further round is made.

        Returns
        -------
        bool or None
            Whether the last evidence was computed and finite all along. None where an evidence is not finite, or no
            column is left.
        """
        cdef double largest, t, before, low, high
        cdef bint is_sound = False
        cdef _ColumnEvidence evidence
        cdef double[::1] chosen = np.empty(of_alike.shape[0])
        cdef Py_ssize_t f
        for _ in range(most_rounds if len(bounds) > 1 else 1):
            largest, is_sound = 0.0, False
            for name, ends in bounds.items():
                if name == "alike":
                    if self.measure() >= 0:
                        return None
                    for f in range(chosen.shape[0]):
                        chosen[f] = of_alike[f] - self.evidence[f] + prior > 0.0
                    if self.set_alike(chosen):
                        largest, is_sound = INFINITY, False
                    continue
                evidence = self.along(name)
                if evidence is None:
                    return None
                (low, high), before = ends, np.log(self.factors.get(name, 1.0))
                t = evidence.climb(before, low, high)
                if not isfinite(t):
                    return None
                is_sound, largest = True, max(largest, fabs(t - before))
                self.move(name, t)
            if largest < settled:
                break
        return is_sound

    def draw(self, name, rng, double low, double high, otherwise):
        """Draw a hyper-parameter by one update of `slice_sample`, with the same numbers.

        Parameters
        ----------
        name : str
        rng : numpy.random.Generator
        low, high : float
            Bounds of the log of its factor.
        otherwise : callable
            Returns the log evidence at the log of a factor where the compiled one is not finite.
        """
        cdef _ColumnEvidence evidence = self.along(name)
        cdef double t = np.log(self.factors.get(name, 1.0)), level, left, right, found
        cdef Py_ssize_t steps_left, steps_right
        level = target_of(evidence, t, otherwise) + <double> np.log1p(-rng.random())
        left = t - <double> rng.random()
        right = left + 1.0
        steps_left = <Py_ssize_t> (MOST_STEPS * <double> rng.random())
        steps_right = MOST_STEPS - 1 - steps_left
        while steps_left > 0 and left > low and target_of(evidence, left, otherwise) > level:
            left, steps_left = left - 1.0, steps_left - 1
        while steps_right > 0 and right < high and target_of(evidence, right, otherwise) > level:
            right, steps_right = right + 1.0, steps_right - 1
        left, right = max(left, low), min(right, high)
        while True:
            found = left + (right - left) * <double> rng.random()
            if target_of(evidence, found, otherwise) > level:
                break
            if found < t:
                left = found
            else:
                right = found
            if right - left < LEAST_WIDTH * (1.0 + fabs(t)):
                found = t
                break
        self.move(name, found)


cdef double target_of(_ColumnEvidence evidence, double t, otherwise) except? -1.0:
    """Return the evidence at t, 0 if all columns are alike, plus the log prior of the factor."""
    cdef double value = 0.0 if evidence is None else evidence.value(t)
    if not isfinite(value):
        value = otherwise(t)
    return value - 0.5 * (t / 3.0) ** 2


# ---- full covariances ------------------------------------------------------------------------------------------------

@final
cdef class ScaleEvidence(_Evidence):
    """Sum of log evidences along the log t of the factor of the prior scale.

    Parameters
    ----------
    own : (K, d) float64 ndarray
        Eigenvalues of the posterior scales less the prior one, where the prior scale without its factor is the
        identity.
    dof : (K,) float64 ndarray
        Degrees of freedom of the posteriors.
    prior_dof : float
    """

    cdef const double[:, ::1] own
    cdef const double[::1] dof
    cdef double slope

    def __init__(self, const double[:, ::1] own, const double[::1] dof, double prior_dof):
        if own.shape[0] != dof.shape[0]:
            raise ValueError(f"eigenvalues of {counted(own.shape[0], 'cluster')}, degrees of freedom of {dof.shape[0]}")
        self.own, self.dof, self.slope = own, dof, 0.5 * prior_dof * own.shape[0] * own.shape[1]

    cdef double value(self, double t) noexcept:
        cdef double factor = exp(t), total = self.slope * t, logs
        cdef Py_ssize_t k, f
        for k in range(self.own.shape[0]):
            logs = 0.0
            for f in range(self.own.shape[1]):
                logs += log(self.own[k, f] + factor)
            total -= 0.5 * self.dof[k] * logs
        return total


@final
cdef class LocationEvidence(_Evidence):
    """Sum of log evidences along the log t of the factor of the strength of the prior location.

    Parameters
    ----------
    n, q : (K,) float64 ndarray
        Number of data, and the squared distance of their mean to the prior location under the posterior scale about
        that mean.
    dof : (K,) float64 ndarray
        Degrees of freedom of the posteriors.
    base : float
        Strength whose factor it is.
    d : int
        Number of columns.
    """

    cdef const double[::1] n, q, dof
    cdef double base, d

    def __init__(self, const double[::1] n, const double[::1] q, const double[::1] dof, double base, Py_ssize_t d):
        if not n.shape[0] == q.shape[0] == dof.shape[0]:
            sizes = (n.shape[0], q.shape[0], dof.shape[0])
            raise ValueError(f"counts, distances and degrees of freedom differ in number: {sizes}")
        self.n, self.q, self.dof, self.base, self.d = n, q, dof, base, d

    cdef double value(self, double t) noexcept:
        cdef double strength = self.base * exp(t), total = 0.0, share
        cdef Py_ssize_t k
        for k in range(self.n.shape[0]):
            share = strength / (strength + self.n[k])
            total += 0.5 * self.d * log(share) - 0.5 * self.dof[k] * log1p(share * self.n[k] * self.q[k])
        return total

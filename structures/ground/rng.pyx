"""Counter-based random numbers.

Results do not depend on threads, processes or shards. A stream is Philox4x64-10 with key (seed, purpose) and counter
(block of draws, unit, step, 0). The unit is a global row number, a move number or a cluster. The step is the step
number of the state. A state stores only (seed, step) and no other random numbers. NumPy's own `Generator(Philox(...))`
gives the same words; `generator` returns it. Moving to a stream costs O(1).
"""

import secrets
from enum import IntEnum

import numpy as np
from numpy.random.bit_generator import ISeedSequence

from libc.math cimport log


class RandomPurpose(IntEnum):
    """Use of a stream; it is the second half of the key."""

    MOVE = Purpose.MOVE
    ACCEPT = Purpose.ACCEPT
    ORDER = Purpose.ORDER
    POSTERIOR = Purpose.POSTERIOR
    START = Purpose.START
    HYPER = Purpose.HYPER
    TABLES = Purpose.TABLES
    CHOICE = Purpose.CHOICE
    PREDICT = Purpose.PREDICT
    SUBSAMPLE = Purpose.SUBSAMPLE
    CHAINS = 11  # seeds of chains; no compiled sampler reads it
    SLICE = 12  # slices of data under open sticks
    SIDE = 13  # sides of data in splits whose data are independent


_NUMBERS = {purpose.name.lower(): int(purpose) for purpose in RandomPurpose}


cdef int _number_of(str purpose) except -1:
    """Return the number of a purpose from its name; a table answers ten times as fast."""
    found = _NUMBERS.get(purpose)
    return int(RandomPurpose[purpose.upper()]) if found is None else found


def generator(seed, purpose, *, unit=0, step=0):
    """Return a NumPy generator for the stream of one (seed, purpose; unit, step).

    Parameters
    ----------
    seed : int
        In [0, 2**64).
    purpose : RandomPurpose or str
        What the numbers are used for; a str is the lower-case name of a purpose.
    unit : int
        Number of a datum, move or cluster.
    step : int
        Number of the step.

    Returns
    -------
    numpy.random.Generator

    Examples
    --------
    >>> from expfam.structures.ground.rng import generator
    >>> a = generator(7, "start", unit=3).random()
    >>> a == generator(7, "start", unit=3).random()
    True
    """
    if isinstance(purpose, str):
        purpose = _number_of(purpose)
    counter = np.array([0, unit, step, 0], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(_Key(seed, int(purpose)), counter=counter))


cdef class UniformStream:
    """Uniform numbers of one stream: those of its `generator`, without an object of NumPy.

    Parameters
    ----------
    seed, purpose, unit, step
        See `generator`.

    Examples
    --------
    >>> from expfam.structures.ground.rng import UniformStream, generator
    >>> (UniformStream(7, "start", unit=3).random(5) == generator(7, "start", unit=3).random(5)).all()
    np.True_
    """

    cdef philox_stream stream

    def __init__(self, seed, purpose, *, unit=0, step=0):
        philox_init(&self.stream, seed, _number_of(purpose))
        philox_aim(&self.stream, unit, step)

    def random(self, Py_ssize_t size):
        """Return the next uniform numbers in [0, 1): (size,) float64."""
        numbers = np.empty(size)
        cdef double[::1] out = numbers
        cdef Py_ssize_t i
        for i in range(size):
            out[i] = philox_double(&self.stream)
        return numbers


class _Key(ISeedSequence):
    """Key of a stream, in the form in which NumPy takes it without reading the operating system.

    A key that is given as `key` has the same bits, but then NumPy draws entropy for a sequence of seeds that nobody
    reads, which takes three quarters of the time.
    """

    def __init__(self, seed, purpose):
        self._words = np.array([seed, purpose], dtype=np.uint64)

    def generate_state(self, n_words, dtype=np.uint32):
        """Return the two words of the key; Philox asks for these alone."""
        if n_words != 2 or dtype != np.uint64:
            raise ValueError(f"the key of a stream has 2 words of uint64; asked for {n_words} of {np.dtype(dtype)}")
        return self._words


def resolve_seed(random_state=None):
    """Return the 64-bit seed of a run: an integer in [0, 2**64) unchanged, otherwise one draw.

    None reads 64 bits from the operating system. A NumPy Generator or RandomState is advanced by one draw. The module
    `numpy.random` stands for its global RandomState, as in scikit-learn.
    """
    if random_state is None:
        return secrets.randbits(64)
    if random_state is np.random:
        random_state = np.random.mtrand._rand
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(0, 2**64, dtype=np.uint64))
    if isinstance(random_state, np.random.RandomState):
        low, high = random_state.randint(0, 2**32, size=2, dtype=np.uint64)
        return int(low) | (int(high) << 32)
    try:
        seed = random_state.__index__()
    except AttributeError:
        raise TypeError(
            "random_state must be None, an integer, a numpy Generator or RandomState, or the module numpy.random; got"
            f" {random_state!r}: write random_state=0"
        ) from None
    if not 0 <= seed < 2**64:
        raise ValueError(
            f"an integer random_state must lie in [0, 2**64); got {seed}: write random_state={abs(seed) % 2**32}"
        )
    return seed


def log_uniforms(seed, purpose, uint64_t first_unit, Py_ssize_t n, uint64_t step):
    """Return the log of one uniform number in (0, 1] for each of n units: (n,) float64.

    Each is the first of the stream of (seed, purpose; unit, step).

    Parameters
    ----------
    seed, purpose, step
        As in `generator`.
    first_unit : int
    n : int
        The units are first_unit..first_unit + n - 1.

    Examples
    --------
    >>> from expfam.structures.ground.rng import log_uniforms
    >>> both = log_uniforms(3, "slice", 5, 2, 0)
    >>> bool(both[1] == log_uniforms(3, "slice", 6, 1, 0)[0] < 0.0)
    True
    """
    cdef philox_stream stream
    cdef Py_ssize_t i
    logs = np.empty(n)
    cdef double[::1] out = logs
    philox_init(&stream, seed, int(RandomPurpose[purpose.upper()]))
    with nogil:
        for i in range(n):
            philox_aim(&stream, first_unit + <uint64_t> i, step)
            out[i] = log(1.0 - philox_double(&stream))
    return logs


def log_uniforms_of(seed, purpose, const uint64_t[::1] units, uint64_t step):
    """Return what `log_uniforms` returns, for units that do not follow each other: (n,) float64.

    Parameters
    ----------
    seed, purpose, step
        As in `generator`.
    units : (n,) uint64 ndarray

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.structures.ground.rng import log_uniforms, log_uniforms_of
    >>> both = log_uniforms(3, "slice", 5, 2, 0)
    >>> bool((log_uniforms_of(3, "slice", np.array([6, 5], dtype=np.uint64), 0) == both[::-1]).all())
    True
    """
    cdef philox_stream stream
    cdef Py_ssize_t i
    logs = np.empty(units.shape[0])
    cdef double[::1] out = logs
    philox_init(&stream, seed, int(RandomPurpose[purpose.upper()]))
    with nogil:
        for i in range(units.shape[0]):
            philox_aim(&stream, units[i], step)
            out[i] = log(1.0 - philox_double(&stream))
    return logs


def stream_words(uint64_t seed, uint64_t purpose, uint64_t unit, uint64_t step, Py_ssize_t size):
    """Return the first words of a stream, (size,) uint64, as the compiled samplers read them.

    Parameters
    ----------
    seed, unit, step : int
        As in `generator`.
    purpose : int
        Value of the RandomPurpose.
    size : int
        Number of words.
    """
    cdef philox_stream stream
    cdef Py_ssize_t i
    words = np.empty(size, dtype=np.uint64)
    cdef uint64_t[::1] out = words
    philox_init(&stream, seed, purpose)
    philox_aim(&stream, unit, step)
    for i in range(size):
        out[i] = philox_next64(&stream)
    return words

"""What the laws of kernels are tried on: a kernel, a model of few data whose posterior is enumerated, and many moves.

Each move starts at a partition drawn from the exact posterior, whatever came before: after one step, and after any
number of them, the partitions then follow the posterior if and only if the kernel leaves it invariant.
"""

import warnings
import zlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from expfam import (
    Dataset,
    DiagonalGaussian,
    DirichletProcess,
    MixtureModel,
    Multinomial,
    PitmanYor,
    Poisson,
    SymmetricDirichlet,
)
from expfam.errors import CapabilityError, DataWarning, ExactnessWarning
from expfam.plugins.laws.data_case import Inapplicable
from expfam.samplers import CollapsedState

_LATER = 3  # steps after the first one

_COUNTS = np.array([[3, 0, 1], [2, 1, 0], [0, 0, 4], [0, 2, 0], [1, 0, 9]])
_REAL = np.array([[0.3, -1.0], [0.5, -0.7], [2.0, 1.5], [1.7, 2.2], [-0.4, 0.1]])


def tiny_models():
    """Models with data by name: three families, three priors on weights; 52 partitions or fewer each."""
    return {
        "poisson_dirichlet_process": (MixtureModel(Poisson(shape=0.8, rate=0.5), DirichletProcess(alpha=0.7)), _COUNTS),
        "gaussian_pitman_yor": (
            MixtureModel(
                DiagonalGaussian(mean=0.2, mean_strength=0.3, shape=1.5, rate=0.7), PitmanYor(alpha=0.5, discount=0.3)
            ),
            _REAL,
        ),
        "multinomial_dirichlet": (
            MixtureModel(Multinomial(concentration=0.4), SymmetricDirichlet(3, alpha=0.4)),
            _COUNTS,
        ),
    }


def set_partitions(n):
    """All set partitions of n items as label tuples in first-appearance form; 1, 2, 5, 15, 52, 203, 877 of them."""
    partitions = [(0,)]
    for _ in range(n - 1):
        partitions = [(*p, k) for p in partitions for k in range(max(p) + 2)]
    return partitions


def canonical(labels):
    """Labels renumbered by first appearance, as a tuple."""
    names = {}
    return tuple(names.setdefault(int(k), len(names)) for k in labels)


def exact_posterior(model, X):
    """Partitions with positive probability and their posterior probabilities, from the model's plain definition."""
    data = Dataset(X, model.family)
    model = model.with_family(data.family)
    limit = model.weights.max_components or data.n_rows
    partitions = [p for p in set_partitions(data.n_rows) if max(p) < limit]
    log_joint = np.array([model.log_joint(data, np.array(p)) for p in partitions])
    pi = np.exp(log_joint - log_joint.max())
    return partitions, pi / pi.sum()


@dataclass(frozen=True)
class Subject:
    """A kernel as laws ask for it: its name, and what is claimed of it."""

    name: str
    capabilities: frozenset


class KernelCase:
    """A kernel with a model of few data.

    Parameters
    ----------
    kernel : Kernel
        Of a collapsed state.
    model : MixtureModel
    X : (N, V) array_like or sparse matrix
        At most 7 rows.
    seed : int
    n_moves : int
    reversible : bool
        Whether a single step is claimed to be reversible.
    """

    def __init__(self, kernel, model, X, *, seed=0, n_moves=10_000, reversible=False):
        self.kernel, self.seed, self.n_moves = kernel, int(seed), int(n_moves)
        self.subject = Subject(type(kernel).__name__, frozenset({"reversible"} if reversible else ()))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            self.data = Dataset(X, model.family)
        if self.data.n_rows > 7:
            raise ValueError(f"{self.data.n_rows} data have too many partitions to enumerate: give at most 7")
        self.model = model.with_family(self.data.family)
        self.partitions, self.pi = exact_posterior(self.model, self.data.X)
        self.place = {p: row for row, p in enumerate(self.partitions)}
        self._proposing = {}

    others = ()  # a kernel is tried on the models that it is given, see `Case.others`

    def rng(self, name):
        """Generator of one purpose: the same for the same seed, whatever other laws were tried before."""
        return np.random.default_rng([self.seed, zlib.crc32(name.encode())])

    def init(self):
        """A state of one cluster that the kernel has made."""
        try:
            state = self.kernel.init(self.model, self.data, seed=self.seed, start="one")
        except CapabilityError as error:
            raise Inapplicable(str(error)) from error
        if not isinstance(state, CollapsedState):
            raise ValueError(f"{self.kernel!r} makes a {type(state).__name__}; the laws are those of a CollapsedState")
        return state

    @property
    def refusal(self):
        """Why the kernel does not serve this model, or None."""
        try:
            self.init()
        except Inapplicable as reason:
            return str(reason)

    def step(self, state):
        """One step; warnings that say the kernel is not exact are what the laws are to find out."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExactnessWarning)
            return self.kernel.step(state)

    def row(self, state):
        """Place of a state's partition among all; -1 for one that cannot be."""
        return self.place.get(canonical(state.labels), -1)

    @cached_property
    def moves(self):
        """Partitions (n_moves,) before a step, after it, and after some more, of starts from the exact posterior.

        The kernel has seen one step before: what it learns of labels then, it has to keep.
        """
        before = self.rng("starts").choice(len(self.pi), size=self.n_moves, p=self.pi)
        state = self.init()
        self.step(state)
        homes = {}
        after, later = np.empty((2, self.n_moves), dtype=np.intp)
        for t, row in enumerate(before):
            if row not in homes:
                homes[row] = CollapsedState(self.model, self.data, np.array(self.partitions[row]), seed=self.seed)
            state.take(homes[row])
            state.n_steps = 1 + t * 1000  # its own random numbers
            self._count(self.step(state))
            after[t] = self.row(state)
            if t % 4 == 0:
                for _ in range(_LATER):
                    self.step(state)
            later[t] = self.row(state)
        return before, after, later[::4]

    @cached_property
    def may_be_moved(self):
        """Whether the kernel steps on after others have moved labels; one that learns names of clusters cannot."""
        state = self.init()
        self.step(state)
        state.take(CollapsedState(self.model, self.data, np.zeros(self.data.n_rows, dtype=int), seed=self.seed))
        try:
            self.step(state)
        except CapabilityError:
            return False
        return True

    @cached_property
    def visits(self):
        """Partitions (n_moves,) of one long chain, after a tenth as many steps from its start."""
        state = self.init()
        rows = np.empty(self.n_moves + self.n_moves // 10, dtype=np.intp)
        for t in range(rows.size):
            self._count(self.step(state))
            rows[t] = self.row(state)
        return rows[-self.n_moves :]

    def _count(self, info, part=()):
        """Note whether a step proposed anything: of a `Cycle`, whether each of its parts did."""
        parts = info.extra.get("parts")
        for place, each in enumerate(parts or ()):
            self._count(each, (*part, place))
        if not parts:
            counts = self._proposing.setdefault(part, [0, 0])
            counts[0] += info.proposed > 0
            counts[1] += 1

    @property
    def proposing(self):
        """Share of the many steps that proposed anything, by the places of the parts of a `Cycle`; () for no parts."""
        self.pairs  # noqa: B018  (the steps are made there)
        return {part: moved / steps for part, (moved, steps) in self._proposing.items()}

    @property
    def pairs(self):
        """Partitions before and after many steps, of independent moves or else of one chain."""
        if self.may_be_moved:
            return self.moves[:2]
        return self.visits[:-1], self.visits[1:]

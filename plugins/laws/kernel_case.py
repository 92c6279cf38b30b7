"""The case for laws of kernels: a kernel, a tiny model, its exact posterior, and many moves.

Each move starts at a partition drawn from the exact posterior. The partitions after one step, or after several, then
follow the posterior if and only if the kernel leaves it invariant.
"""

from __future__ import annotations

import warnings
import zlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

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
from expfam.amounts import counted
from expfam.errors import CapabilityError, DataWarning, ExactnessWarning
from expfam.model.enumeration import canonical, set_partitions
from expfam.plugins.laws.data_case import Inapplicable
from expfam.samplers import CollapsedState

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.protocols import Info

_LATER = 3  # steps after the first one

_COUNTS = np.array([[3, 0, 1], [2, 1, 0], [0, 0, 4], [0, 2, 0], [1, 0, 9]])
_REAL = np.array([[0.3, -1.0], [0.5, -0.7], [2.0, 1.5], [1.7, 2.2], [-0.4, 0.1]])


def tiny_models() -> dict[str, tuple[MixtureModel, npt.NDArray[Any]]]:
    """Return named models with data: three families and three priors on the weights.

    Each has at most 52 partitions.
    """
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


def exact_posterior(model: MixtureModel, X: Any) -> tuple[list[tuple[int, ...]], npt.NDArray[np.float64]]:
    """Return the partitions with positive probability and their posterior probabilities.

    They are computed from the definition of the model.
    """
    data = Dataset(X, model.family)
    model = model.with_family(data.family)
    limit = model.weights.max_components or data.n_rows
    partitions = [p for p in set_partitions(data.n_rows) if max(p) < limit]
    log_joint = np.array([model.log_joint(data, np.array(p)) for p in partitions])
    pi = np.exp(log_joint - log_joint.max())
    return partitions, pi / pi.sum()


@dataclass(frozen=True)
class Subject:
    """Name of a kernel and the properties claimed for it, in the form that laws read."""

    name: str
    capabilities: frozenset


class KernelCase:
    """A kernel of a collapsed state with a model of at most 7 data, to try laws on.

    `reversible` says whether a single step is claimed to be reversible.
    """

    def __init__(
        self,
        kernel: Any,
        model: MixtureModel,
        X: Any,
        *,
        seed: int = 0,
        n_moves: int = 10_000,
        reversible: bool = False,
    ) -> None:
        self.kernel, self.seed, self.n_moves = kernel, int(seed), int(n_moves)
        self.subject = Subject(type(kernel).__name__, frozenset({"reversible"} if reversible else ()))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            self.data = Dataset(X, model.family)
        if self.data.n_rows > 7:
            raise ValueError(
                f"{counted(self.data.n_rows, 'datum has', 'data have')} too many partitions to enumerate: give at most "
                "7 rows"
            )
        self.model = model.with_family(self.data.family)
        self.partitions, self.pi = exact_posterior(self.model, self.data.X)
        self.place = {p: row for row, p in enumerate(self.partitions)}
        self._proposing: dict[tuple[int, ...], list[int]] = {}

    others = ()  # a kernel is tried on the given models only, see `Case.others`

    def rng(self, name: str) -> np.random.Generator:
        """Return a generator that depends on the seed and on `name` alone."""
        return np.random.default_rng([self.seed, zlib.crc32(name.encode())])

    def init(self) -> CollapsedState:
        """Return a state with one cluster, made by the kernel."""
        try:
            state = self.kernel.init(self.model, self.data, seed=self.seed, start="one")
        except CapabilityError as error:
            raise Inapplicable(str(error)) from error
        if not isinstance(state, CollapsedState):
            raise ValueError(f"{self.kernel!r} makes a {type(state).__name__}; the laws need a CollapsedState")
        return state

    @property
    def refusal(self) -> str | None:
        """Return why the kernel refuses this model, or None if it works."""
        try:
            self.init()
        except Inapplicable as reason:
            return str(reason)
        return None

    def step(self, state: CollapsedState) -> Info:
        """Take one step without warnings about exactness: the laws test it themselves."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExactnessWarning)
            return self.kernel.step(state)

    def row(self, state: CollapsedState) -> int:
        """Return the position of the state's partition in `partitions`, -1 if impossible."""
        return self.place.get(canonical(state.labels), -1)

    @cached_property
    def moves(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Return partitions drawn from the posterior, and those after one and after four steps.

        Each is an array of positions in `partitions`: (n_moves,), (n_moves,) and (n_moves / 4,). The kernel has made
        one step before these, so what it learned about the labels in that step must still be valid.
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
            state.n_steps = 1 + t * 1000  # random numbers depend on n_steps: each move gets its own
            self._count(self.step(state))
            after[t] = self.row(state)
            if t % 4 == 0:
                for _ in range(_LATER):
                    self.step(state)
            later[t] = self.row(state)
        return before, after, later[::4]

    @cached_property
    def may_be_moved(self) -> bool:
        """Tell whether the kernel goes on after the labels were changed from outside.

        A kernel that remembers the slots of clusters cannot.
        """
        state = self.init()
        self.step(state)
        state.take(CollapsedState(self.model, self.data, np.zeros(self.data.n_rows, dtype=int), seed=self.seed))
        try:
            self.step(state)
        except CapabilityError:
            return False
        return True

    @cached_property
    def visits(self) -> npt.NDArray[np.intp]:
        """Return the (n_moves,) partitions of one long chain, without its first tenth."""
        state = self.init()
        rows = np.empty(self.n_moves + self.n_moves // 10, dtype=np.intp)
        for t in range(rows.size):
            self._count(self.step(state))
            rows[t] = self.row(state)
        return rows[-self.n_moves :]

    def _count(self, info, part=()):
        """Count whether a step, or each part of a step of a `Cycle`, proposed a move."""
        parts = info.extra.get("parts")
        for place, each in enumerate(parts or ()):
            self._count(each, (*part, place))
        if not parts:
            counts = self._proposing.setdefault(part, [0, 0])
            counts[0] += info.proposed > 0
            counts[1] += 1

    @property
    def proposing(self) -> dict[tuple[int, ...], float]:
        """Return the share of steps with a proposal, by the positions of the parts of a `Cycle`.

        The key is () for a kernel without parts.
        """
        self.pairs  # noqa: B018  (the steps are made there)
        return {part: moved / steps for part, (moved, steps) in self._proposing.items()}

    @property
    def pairs(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Return partitions before and after many steps, of separate moves or of one chain."""
        if self.may_be_moved:
            return self.moves[:2]
        return self.visits[:-1], self.visits[1:]

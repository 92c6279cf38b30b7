"""Record of the hyper-parameters that a chain draws, step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from expfam.model.hyper_prior import HyperPrior
from expfam.samplers.hyper.slice import UpdateHyper
from expfam.structures.ground.rng import generator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from expfam.model.mixture import MixtureModel


def updates_of(kernel: Any) -> Iterator[UpdateHyper]:
    """Yield the updates of hyper-parameters in a kernel and in its parts."""
    if isinstance(kernel, UpdateHyper):
        yield kernel
    for part in getattr(kernel, "kernels", ()):
        yield from updates_of(part)


def prior_of_updates(kernel: Any, model: MixtureModel) -> HyperPrior | None:
    """Return the prior of the hyper-parameters that a kernel draws, or None if it draws none.

    Examples
    --------
    >>> from expfam import DirichletProcess, MixtureModel, Poisson
    >>> from expfam.samplers import CollapsedGibbs, Cycle, UpdateHyper
    >>> from expfam.samplers.hyper.record import prior_of_updates
    >>> model = MixtureModel(Poisson(shape=2.0, rate=0.5), DirichletProcess()).bind([[1], [3]])
    >>> prior_of_updates(Cycle(CollapsedGibbs(), UpdateHyper(weights=False)), model).names
    ('shape', 'rate')
    >>> prior_of_updates(CollapsedGibbs(), model) is None
    True
    """
    updates = list(updates_of(kernel))
    names = dict.fromkeys(name for update in updates for name in update.names(model))
    prior = HyperPrior(model, tuple(names), weights=any(update.weights for update in updates))
    return prior if prior.names else None


def spread_hyper(prior: HyperPrior, model: MixtureModel, *, seed: int, spread: float = 1.0) -> MixtureModel:
    """Return a model at some distance from another one, for a chain to begin with.

    Parameters
    ----------
    prior : HyperPrior
        Which hyper-parameters are moved.
    model : MixtureModel
    seed : int
        Of the chain.
    spread : float
        Standard deviation of the logs of the factors. Values stay within the bounds of the family.

    Returns
    -------
    MixtureModel
    """
    rng = generator(seed, "hyper", unit=2)
    low, high = prior.limits()
    moved = prior.values(model) + spread * rng.standard_normal(len(prior.names))
    return prior.model_at(np.clip(moved, low, high))


class HyperRecorder:
    """Callback that records the hyper-parameters of every step.

    Parameters
    ----------
    prior : HyperPrior
        Which hyper-parameters are recorded.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from expfam import DirichletProcess, MixtureModel, Poisson
    >>> from expfam.model.hyper_prior import HyperPrior
    >>> from expfam.samplers.hyper.record import HyperRecorder
    >>> model = MixtureModel(Poisson(shape=2.0, rate=0.5), DirichletProcess()).bind([[1], [3]])
    >>> recorder = HyperRecorder(HyperPrior(model, ["rate"], weights=False))
    >>> recorder(None, SimpleNamespace(model=model))
    False
    >>> recorder.values.tolist()
    [[0.0]]
    """

    def __init__(self, prior: HyperPrior) -> None:
        self.prior = prior
        self._values: list[npt.NDArray[np.float64]] = []

    def __call__(self, info: Any, state: Any) -> bool:
        """Record a step; never end the run."""
        self._values.append(self.prior.values(state.model))
        return False

    @property
    def values(self) -> npt.NDArray[np.float64]:
        """Values of every step, as `HyperPrior.values` gives them: (T, H) float64."""
        return np.array(self._values, dtype=np.float64).reshape(len(self._values), len(self.prior.names))

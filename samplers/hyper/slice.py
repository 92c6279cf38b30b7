"""Kernel that updates hyper-parameters by slice sampling, given the partition."""

from __future__ import annotations

from typing import Any

from expfam.errors import CapabilityError
from expfam.samplers.chain.kernel import Kernel
from expfam.structures.ground.rng import generator


class UpdateHyper(Kernel):
    """Kernel that redraws hyper-parameters of the family and of the weights.

    They are drawn given the partition. Use it together with a kernel that moves labels:
    ``Cycle(CollapsedGibbs(), UpdateHyper())``. It evaluates the log evidence of all clusters a few times, which costs
    O(nonzeros of S) for count families.

    Parameters
    ----------
    family : bool or tuple of str
        Whether to update the hyper-parameters that the family declares in `hyper`, or the names of some of them.
    weights : bool
        Whether to update the parameters that the weights declare in `hyper`.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import DirichletProcess, MixtureModel, Multinomial
    >>> from expfam.samplers import CollapsedGibbs, Cycle, UpdateHyper, sample
    >>> X = np.repeat([[5, 0, 0], [0, 5, 0], [0, 0, 5]], 20, axis=0)
    >>> kernel = Cycle(CollapsedGibbs(), UpdateHyper(weights=False))
    >>> state = kernel.init(MixtureModel(Multinomial(concentration=5.0), DirichletProcess()), X, seed=0)
    >>> trace = sample(kernel, state, 30)
    >>> state.model.family.concentration < 1.0
    True
    """

    state_type = None  # works on any state with labels and statistics
    takes_weight = False
    takes_groups = True
    takes_known = frozenset({"clusters", "classes", "links"})

    def __init__(self, *, family: bool | tuple[str, ...] = True, weights: bool = True) -> None:
        self.family, self.weights = family, weights

    def check(self, model: Any, data: Any) -> None:
        """Refuse a model without hyper-parameters, and names that the family does not declare."""
        unknown = [] if isinstance(self.family, bool) else [n for n in self.family if n not in model.family.hyper]
        if unknown:
            raise CapabilityError(f"UpdateHyper: {model.family!r} does not declare {unknown} in hyper")
        if not (self.family and model.family.hyper) and not (self.weights and model.weights.hyper):
            raise CapabilityError(
                f"UpdateHyper: neither {model.family!r} nor {model.weights!r} declares hyper-parameters"
            )

    def move(self, state: Any) -> tuple[int, int, dict[str, Any]]:
        """Update each hyper-parameter once, with random numbers of this step."""
        n, S = state.statistics()
        model = state.model
        if self.family and model.family.hyper:
            rng = generator(state.seed, "hyper", unit=0, step=state.n_steps)
            names = None if self.family is True else self.family
            model = model.with_family(model.family.update_hyper(n, S, rng, names=names))
        if self.weights and model.weights.hyper:
            rng = generator(state.seed, "hyper", unit=1, step=state.n_steps)
            model = model.with_weights(model.weights.update_hyper(n, rng))
        state.set_model(model)
        return 1, 1, {}

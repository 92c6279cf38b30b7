"""Kernel that updates hyper-parameters by slice sampling, given the partition."""

from __future__ import annotations

from typing import Any, Literal

from expfam.errors import CapabilityError
from expfam.samplers.chain.kernel import OPPOSITE, Kernel
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
        Whether to update the parameters that the weights declare in `hyper`. Models of rows in groups declare none: the
        kernel that moves the rows draws their pseudo-counts.
    order : {"sequential", "backward"}
        The family before the weights, or all in the opposite order, which reverses the kernel.

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
    on_shards = True
    takes_weight = False
    takes_groups = True
    takes_known = frozenset({"clusters", "classes", "links"})

    def __init__(
        self,
        *,
        family: bool | tuple[str, ...] = True,
        weights: bool = True,
        order: Literal["sequential", "backward"] = "sequential",
    ) -> None:
        self.family, self.weights, self.order = family, weights, order

    def check(self, model: Any, data: Any) -> None:
        """Refuse a model without hyper-parameters, and names that the family does not declare."""
        if self.order not in OPPOSITE:
            raise ValueError(f"UpdateHyper: order must be 'sequential' or 'backward'; got {self.order!r}")
        # rows in parts have the number of groups alone
        is_grouped = getattr(data, "groups", None) is not None or hasattr(data, "n_groups")
        if not hasattr(model, "weights") and not is_grouped:
            raise CapabilityError(
                "UpdateHyper updates families of rows, and these are words of documents, whose sampler draws their"
                " pseudo-count: write TopicGibbs(learn_eta=True), or where the number of topics is unknown"
                " TopicProcessGibbs(learn_eta=True)"
            )
        unknown = [] if isinstance(self.family, bool) else [n for n in self.family if n not in model.family.hyper]
        if unknown:
            raise CapabilityError(f"UpdateHyper: {model.family!r} does not declare {unknown} in hyper")
        if not (self.family and model.family.hyper) and not (self.weights and _hyper_of_weights(model)):
            raise CapabilityError(
                f"UpdateHyper: neither {model.family!r} nor {getattr(model, 'weights', model)!r} declares"
                " hyper-parameters"
            )

    def names(self, model: Any) -> tuple[str, ...]:
        """Return the names of the updated hyper-parameters of the family, in sequential order."""
        return tuple(model.family.hyper) if self.family is True else tuple(self.family or ())

    def reversed(self) -> UpdateHyper:
        """Return the kernel with the opposite order; each single update is reversible."""
        return type(self)(family=self.family, weights=self.weights, order=OPPOSITE[self.order])

    def move(self, state: Any) -> tuple[int, int, dict[str, Any]]:
        """Update each hyper-parameter once, with random numbers of this step."""
        statistics = state.statistics()
        updates: tuple[Any, ...] = (self._with_family, self._with_weights)
        model = state.model
        for update in updates if self.order == "sequential" else updates[::-1]:
            model = update(model, *statistics, state)
        state.set_model(model)
        return 1, 1, {}

    def _with_family(self, model, n, S, state):
        names = self.names(model)
        if not names:
            return model
        rng = generator(state.seed, "hyper", unit=0, step=state.n_steps)
        names = names if self.order == "sequential" else names[::-1]
        return model.with_family(model.family.update_hyper(n, S, rng, names=names))

    def _with_weights(self, model, n, S, state):
        if not (self.weights and _hyper_of_weights(model)):
            return model
        rng = generator(state.seed, "hyper", unit=1, step=state.n_steps)
        return model.with_weights(model.weights.update_hyper(n, rng, order=self.order))


def _hyper_of_weights(model):
    """Return the names that the weights of a model declare; none for rows in groups."""
    return model.weights.hyper if hasattr(model, "weights") else ()

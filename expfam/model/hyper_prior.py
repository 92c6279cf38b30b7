"""Prior of the hyper-parameters that `UpdateHyper` draws, and their values as numbers.

The factor of a hyper-parameter of the family over its value at binding is log-normal, see `Family.update_hyper`. The
strength of the weights is exponential and the discount uniform, see `PitmanYor.update_hyper`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from expfam.families.base import Family
    from expfam.model.mixture import MixtureModel

FACTOR = "_factor"  # at the end of the name of a factor
_SPREAD = 3.0  # of the log of a factor


class HyperPrior:
    """Joint prior of hyper-parameters of a family and of weights.

    Parameters
    ----------
    model : MixtureModel
        Bound.
    family : sequence of str
        Names of the hyper-parameters of the family that are drawn; the others keep the values of the model.
    weights : bool
        Whether those of the weights are drawn.

    Attributes
    ----------
    names : tuple of str
        Names of the values that `values` gives.
    draws_weights : bool

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import DirichletProcess, MixtureModel, Poisson
    >>> from expfam.model.hyper_prior import HyperPrior
    >>> model = MixtureModel(Poisson(shape=2.0, rate=0.5), DirichletProcess()).bind([[1], [3]])
    >>> prior = HyperPrior(model, ["rate"], weights=True)
    >>> prior.names, prior.values(model).tolist()
    (('rate', 'alpha'), [0.0, 0.0])
    >>> prior.draw(np.random.default_rng(0)).weights
    DirichletProcess(alpha=1.0195...)
    """

    def __init__(self, model: MixtureModel, family: Sequence[str], *, weights: bool) -> None:
        self._model, self._family = model, tuple(family)
        self.draws_weights = weights and bool(model.weights.hyper)
        # a discount of 0 is that of the Dirichlet process, and stays
        self._has_discount = self.draws_weights and getattr(model.weights, "discount", 0.0) > 0
        self.names = (*self._family, *("alpha",) * self.draws_weights, *("discount",) * self._has_discount)

    def draw(self, rng: np.random.Generator) -> MixtureModel:
        """Return the model with hyper-parameters drawn from their prior."""
        model = self._model
        for name in self._family:
            model = model.with_family(_scaled(model.family, name, self._factor(name, rng)))
        if not self.draws_weights:
            return model
        weights = model.weights
        values = {"alpha": float(rng.standard_exponential()) / (weights.max_components or 1)}
        if self._has_discount:
            values["discount"] = float(rng.random())
        return model.with_weights(weights.with_hyper(**values))

    def _factor(self, name, rng):
        low, high = self._model.family.hyper_bounds(name)
        while True:
            factor = float(np.exp(_SPREAD * rng.standard_normal()))
            if low <= factor <= high:
                return factor

    def values(self, model: MixtureModel) -> npt.NDArray[np.float64]:
        """Return logs of the factors and of alpha, and the discount: (H,) as `names` says."""
        found = [np.log(_factor_of(model.family, name)) for name in self._family]
        if self.draws_weights:
            alpha = model.weights.alpha
            found.append(np.log(model.weights.offset if alpha is None else alpha))
        if self._has_discount:
            found.append(model.weights.discount)
        return np.array(found, dtype=np.float64)

    def limits(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return the least and the largest of each of the `values`: two arrays (H,)."""
        with np.errstate(divide="ignore"):  # a bound of 0 is minus infinity in logs
            low, high = (list(ends) for ends in zip(*map(self._limits_of, self._places())))
        return np.array(low, dtype=np.float64), np.array(high, dtype=np.float64)

    def _limits_of(self, name):
        if isinstance(name, str):
            return tuple(np.log(self._model.family.hyper_bounds(name)))
        return (0.0, np.nextafter(1.0, 0.0)) if name[1] == "discount" else (-np.inf, np.inf)

    def model_at(self, values: npt.ArrayLike) -> MixtureModel:
        """Return the model with the hyper-parameters that an array (H,) of `values` stands for.

        Examples
        --------
        >>> from expfam import DirichletProcess, MixtureModel, Poisson
        >>> from expfam.model.hyper_prior import HyperPrior
        >>> model = MixtureModel(Poisson(shape=2.0, rate=0.5), DirichletProcess()).bind([[1], [3]])
        >>> HyperPrior(model, ["rate"], weights=False).model_at([0.0]).family.rate
        0.5
        """
        found = dict(zip(self._places(), np.asarray(values, dtype=np.float64).tolist()))
        model = self._model
        family = at_factors(model.family, {name: float(np.exp(found[name])) for name in self._family})
        model = model.with_family(family)
        if not self.draws_weights:
            return model
        settings = {"alpha": float(np.exp(found["", "alpha"]))}
        if self._has_discount:
            settings["discount"] = found["", "discount"]
        return model.with_weights(model.weights.with_hyper(**settings))

    def columns(self, values: npt.ArrayLike) -> dict[str, npt.NDArray[np.float64]]:
        """Return rows of `values` (..., H) as named numbers.

        A hyper-parameter of the family is given by its factor over its value at binding, as "rate_factor"; those of the
        weights are "alpha" and "discount".
        """
        values = np.asarray(values, dtype=np.float64)
        columns = {}
        for place, name in enumerate(self._places()):
            if isinstance(name, str):
                columns[name + FACTOR] = np.exp(values[..., place])
            else:
                columns[name[1]] = values[..., place] if name[1] == "discount" else np.exp(values[..., place])
        return columns

    def _places(self):
        """Return what each value is of: a name of the family, or ("", a name of the weights)."""
        own = self.names[len(self._family) :]
        return [*self._family, *(("", name) for name in own)]


def at_factors(family: Family, factors: Mapping[str, float]) -> Family:
    """Return a bound family with these factors of its hyper-parameters.

    A factor multiplies the value at binding.

    Examples
    --------
    >>> from expfam import Poisson
    >>> from expfam.model.hyper_prior import at_factors
    >>> at_factors(Poisson(shape=2.0, rate=0.5).bind([[1], [3]]), {"rate": 3.0}).rate
    1.5
    """
    for name, factor in factors.items():
        family = _scaled(family, name, factor)
    return family


def _factor_of(family: Family, name: str) -> float:
    """Return a hyper-parameter over its value at binding."""
    return float(getattr(family, "hyper_factors_", {}).get(name, 1.0))


def _scaled(family: Family, name: str, factor: float) -> Family:
    """Return the family with a hyper-parameter of `factor` times its value at binding."""
    value = np.asarray(getattr(family, name)) / _factor_of(family, name) * factor
    scaled = family.with_hyper(**{name: float(value) if value.ndim == 0 else value})
    return scaled.with_factors({**getattr(family, "hyper_factors_", {}), name: factor})

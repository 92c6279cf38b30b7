"""Prior of the hyper-parameters that `UpdateHyper` draws, and their values as numbers.

The factor of a hyper-parameter of the family over its value at binding is log-normal, see `Family.update_hyper`. The
strength of the weights is exponential and the discount uniform, see `PitmanYor.update_hyper`. A yes or no for each
column has the odds of the family, see `Family.log_odds_of_yes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from expfam.families.support import YES_NO

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from expfam.families.base import Family
    from expfam.model.mixture import MixtureModel

FACTOR = "_factor"  # at the end of the name of a factor
WEIGHT_NAMES = ("alpha", "discount")  # of what draws hold of the weights
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
        Names of the values that `values` gives; "name[3]" is the factor, or the choice, of column 3.
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
        self.draws_weights = weights and hasattr(model, "weights") and bool(model.weights.hyper)
        # a discount of 0 is that of the Dirichlet process, and stays
        self._has_discount = self.draws_weights and getattr(model.weights, "discount", 0.0) > 0
        own = factor_names(model.family, self._family)
        self.names = (*own, *("alpha",) * self.draws_weights, *("discount",) * self._has_discount)
        self._n_factors = len(own)

    def draw(self, rng: np.random.Generator) -> MixtureModel:
        """Return the model with hyper-parameters drawn from their prior."""
        model = self._model
        factors = {name: self._factor(_of_column(name)[0], rng) for name in self.names[: self._n_factors]}
        model = model.with_family(at_factors(model.family, factors))
        if not self.draws_weights:
            return model
        weights = model.weights
        values = {"alpha": float(rng.standard_exponential()) / (weights.max_components or 1)}
        if self._has_discount:
            values["discount"] = float(rng.random())
        return model.with_weights(weights.with_hyper(**values))

    def _factor(self, name, rng):
        if self._is_choice(name):
            return float(np.log(rng.random()) < -np.logaddexp(0.0, -self._model.family.log_odds_of_yes(name)))
        low, high = self._model.family.hyper_bounds(name)
        while True:
            factor = float(np.exp(_SPREAD * rng.standard_normal()))
            if low <= factor <= high:
                return factor

    def _is_choice(self, name):
        """Return whether a hyper-parameter of the family is 0 or 1 for each column."""
        return is_choice(self._model.family, name)

    def values(self, model: MixtureModel) -> npt.NDArray[np.float64]:
        """Return logs of the factors and of alpha, and the discount: (H,) as `names` says.

        What is a yes or no for each column is 1 or 0.
        """
        found = [t for name in self._family for t in _values_of(model.family, name).flat]
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
            bounds = self._model.family.hyper_bounds(_of_column(name)[0])
            return bounds if self._is_choice(_of_column(name)[0]) else tuple(np.log(bounds))
        return (0.0, np.nextafter(1.0, 0.0)) if name[1] == "discount" else (-np.inf, np.inf)

    def model_at(self, values: npt.ArrayLike) -> MixtureModel:
        """Return the model with the hyper-parameters that an array (H,) of `values` stands for.

        Of a mean of choices, the more frequent one counts.

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
        names = self.names[: self._n_factors]
        family = at_factors(model.family, {name: self._given(name, found[name]) for name in names})
        model = model.with_family(family)
        if not self.draws_weights:
            return model
        settings = {"alpha": float(np.exp(found["", "alpha"]))}
        if self._has_discount:
            settings["discount"] = found["", "discount"]
        return model.with_weights(model.weights.with_hyper(**settings))

    def _given(self, name, value):
        """Return the factor, or the choice, that one of the `values` stands for."""
        return float(value > 0.5) if self._is_choice(_of_column(name)[0]) else float(np.exp(value))

    def columns(self, values: npt.ArrayLike) -> dict[str, npt.NDArray[np.float64]]:
        """Return rows of `values` (..., H) as named numbers.

        A hyper-parameter of the family is given by its factor over its value at binding, as "rate_factor"; what is a
        yes or no for each column is 1 or 0, as "alike[3]". Those of the weights are "alpha" and "discount".
        """
        values = np.asarray(values, dtype=np.float64)
        columns = {}
        for place, name in enumerate(self._places()):
            if isinstance(name, str):
                is_choice = self._is_choice(_of_column(name)[0])
                key = recorded_name(self._model.family, name)
                columns[key] = values[..., place].copy() if is_choice else np.exp(values[..., place])
            else:
                columns[name[1]] = values[..., place] if name[1] == "discount" else np.exp(values[..., place])
        return columns

    def _places(self):
        """Return what each value is of: a name of the family, or ("", a name of the weights)."""
        own = self.names[self._n_factors :]
        return [*self.names[: self._n_factors], *(("", name) for name in own)]


def factor_names(family: Family, names: Sequence[str]) -> list[str]:
    """Return the names of the learned factors of some hyper-parameters of a bound family.

    Examples
    --------
    >>> from expfam import Categorical
    >>> from expfam.model.hyper_prior import factor_names
    >>> factor_names(Categorical().bind([[0, 1], [1, 0]]), ["concentration"])
    ['concentration[0]', 'concentration[1]']
    """
    shapes = [(name, family.factor_shape(name)) for name in names]
    each = ([f"{name}[{j}]" for j in range(shape[0])] if shape else [name] for name, shape in shapes)
    return [name for found in each for name in found]


def is_choice(family: Family, name: str) -> bool:
    """Return whether a hyper-parameter is 0 or 1 for each column."""
    return family.hyper.get(name) == YES_NO


def recorded_name(family: Family, name: str) -> str:
    """Return the name under which draws hold a name of `factor_names`; factors end in "_factor"."""
    return name if is_choice(family, _of_column(name)[0]) else name + FACTOR


def _values_of(family, name):
    """Return the logs of the factors of a hyper-parameter, or its choices."""
    if is_choice(family, name):
        return np.broadcast_to(np.asarray(getattr(family, name), dtype=np.float64), family.factor_shape(name))
    return np.log(np.broadcast_to(_factor_of(family, name), family.factor_shape(name)))


def at_factors(family: Family, factors: Mapping[str, float]) -> Family:
    """Return a bound family with these factors of its hyper-parameters.

    Names are those of `factor_names`. A factor multiplies the value at binding; a choice is 0 or 1.

    Examples
    --------
    >>> from expfam import Poisson
    >>> from expfam.model.hyper_prior import at_factors
    >>> at_factors(Poisson(shape=2.0, rate=0.5).bind([[1], [3]]), {"rate": 3.0}).rate
    1.5
    """
    columns: dict[str, dict[int, float]] = {}
    for key, factor in factors.items():
        name, column = _of_column(key)
        if column is None:
            family = _scaled(family, name, factor)
        else:
            columns.setdefault(name, {})[column] = factor
    for name, found in columns.items():
        now = getattr(family, name) if is_choice(family, name) else _factor_of(family, name)
        learned = np.array(np.broadcast_to(now, family.factor_shape(name)), dtype=np.float64)
        learned[list(found)] = list(found.values())
        if is_choice(family, name):
            family = family.with_hyper(**{name: learned})
            continue
        family = family._at_factor(name, np.log(learned))
    return family


def _of_column(name: str) -> tuple[str, int | None]:
    """Return hyper-parameter and column of a name of `factor_names`; None for all columns."""
    owner, bracket, column = name.removesuffix("]").rpartition("[")
    return (owner, int(column)) if bracket else (name, None)


def _factor_of(family: Family, name: str) -> Any:
    """Return a hyper-parameter over its value at binding."""
    return getattr(family, "hyper_factors_", {}).get(name, 1.0)


def _scaled(family: Family, name: str, factor: float) -> Family:
    """Return the family with a hyper-parameter of `factor` times its value at binding."""
    value = family._base_of(name) * factor
    scaled = family.with_hyper(**{name: float(value) if value.ndim == 0 else value})
    return scaled.with_factors({**getattr(family, "hyper_factors_", {}), name: factor})

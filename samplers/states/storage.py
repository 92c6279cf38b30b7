"""Arrays for the checkpoints of all states, and a mixin for states that are not converted."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from scipy import sparse

from expfam.errors import ArchiveError, CapabilityError
from expfam.families.support import YES_NO
from expfam.structures.ground.stored import TINY, integers, numbers

MOST_GAP = 1e-6  # largest relative difference of stored statistics from those of the labels: only drift


class UnsharedState:
    """Mixin for states that cannot be converted to another state type.

    Attributes
    ----------
    way_on : str
        Expression, for error messages, with which the chain of another kernel can start from this state.
    """

    way_on = "state.labels"

    def take(self, other: Any) -> NoReturn:
        """Raise a `CapabilityError`: no state of another type can be converted to this one."""
        raise CapabilityError(f"a {type(self).__name__} cannot be combined with states of other types in one chain")

    def as_type(self, state_type: type) -> Any:
        """Return this state; raise a `CapabilityError` for another type."""
        if state_type is type(self):
            return self
        raise CapabilityError(
            f"a {type(self).__name__} cannot become a {state_type.__name__}: begin one from its"
            f" partition: write kernel.init(state.model, state.data, seed=state.seed, start={self.way_on})"
        )


def memory_arrays(memory: dict[str, Any]) -> dict[str, Any]:
    """Return the working objects of kernels as nested dicts of arrays.

    Arrays that were restored and that no kernel has read yet are unchanged.
    """
    return {
        key: memory_arrays(value)
        if isinstance(value, dict)
        else value
        if isinstance(value, np.ndarray)
        else value.to_arrays()
        for key, value in memory.items()
    }


def stored_memory(arrays: dict[str, Any]) -> dict[str, Any]:
    """Return the stored working objects of kernels; refuse all but a dict of dicts."""
    memory = arrays.get("memory", {})
    if not isinstance(memory, dict) or not all(isinstance(value, dict) for value in memory.values()):
        raise ArchiveError("the stored arrays of kernels have no names: the file was altered")
    return dict(memory)


def matrix_arrays(S: Any) -> Any:
    """Return a copy of a dense matrix, or the three arrays and the width of a CSR matrix."""
    if not sparse.issparse(S):
        return S.copy()
    width = np.array(S.shape[1], dtype=np.int64)
    return {"values": S.data.copy(), "columns": S.indices.copy(), "starts": S.indptr.copy(), "width": width}


def stored_matrix(arrays: dict[str, Any], name: str, shape: tuple[int, ...]) -> Any:
    """Return a matrix from `matrix_arrays`, dense or CSR.

    Parameters
    ----------
    arrays : dict
    name : str
        Key of the matrix in `arrays`.
    shape : (int, int)

    Raises
    ------
    ArchiveError
        It has not the given shape.
    """
    found = arrays[name]
    if not isinstance(found, dict):
        return numbers(arrays, name, shape)
    integers(found, "width", (), shape[1], shape[1] + 1)
    values = numbers(found, "values", (None,))
    parts = (
        values,
        integers(found, "columns", values.shape, 0, shape[1], dtype=np.asarray(found["columns"]).dtype),
        integers(found, "starts", (shape[0] + 1,), 0, values.size + 1, dtype=np.asarray(found["starts"]).dtype),
    )
    matrix = sparse.csr_array(parts, shape=shape)
    matrix.check_format(full_check=True)
    return matrix


def model_arrays(model: Any) -> dict[str, Any]:
    """Return the numbers of a model that a chain may have learned.

    They are hyper-parameters of the family and parameters of the weights.
    """
    weights = {name: np.array(value) for name, value in model.weights.get_params().items() if isinstance(value, float)}
    return {**family_arrays(model.family), "weights": weights}


def with_model_arrays(model: Any, arrays: dict[str, Any]) -> Any:
    """Return the model with the hyper-parameters from `model_arrays`."""
    now, stored = model_arrays(model)["weights"], arrays.get("weights", {})
    for name in sorted(set(stored) & set(model.weights.get_params()) - set(now)):
        now[name] = np.array(1.0 if name == "alpha" else 0.0)  # given as an int, learned as a float
    weights = _like(stored, now)
    family = with_family_arrays(model.family, arrays)
    return model.with_family(family).with_weights(model.weights.with_hyper(**weights))


def family_arrays(family: Any) -> dict[str, Any]:
    """Return the hyper-parameters of a family, which a chain may have learned."""
    values = {name: np.asarray(getattr(family, name), dtype=np.float64) for name in family.hyper}
    factors = getattr(family, "hyper_factors_", {})
    return {"family": values, "factors": {name: np.array(value) for name, value in factors.items()}}


def with_family_arrays(family: Any, arrays: dict[str, Any]) -> Any:
    """Return the family with the hyper-parameters from `family_arrays`."""
    now, stored = family_arrays(family)["family"], dict(arrays.get("family", {}))
    for name in sorted(now.keys() - stored.keys()):
        if family.hyper[name] == YES_NO:  # files of earlier versions have no choices
            stored[name] = now[name]
    family = family.with_hyper(**_like(stored, now))
    if arrays.get("factors"):
        if not set(arrays["factors"]) <= set(family.hyper):
            strange = sorted(arrays["factors"])
            raise ArchiveError(f"factors of {strange} are stored; {family.name} learns {family.hyper}")
        factors = arrays["factors"]
        family = family.with_factors({name: _factors(family, factors, name) for name in factors})
    return family


def _factors(family, stored, name):
    """Return the stored factors of a hyper-parameter: a number, or one for each column."""
    is_number = np.ndim(stored[name]) == 0
    factors = numbers(stored, name, () if is_number else family.factor_shape(name), low=TINY)
    return float(factors) if is_number else factors


def _like(stored, now):
    """Return stored numbers by name; refuse other names, shapes or signs than those of `now`."""
    if set(stored) != set(now):
        raise ArchiveError(f"hyper-parameters {sorted(stored)} are stored; the model has {sorted(now)}")
    values = {}
    for name, value in now.items():
        values[name] = numbers(
            stored,
            name,
            np.shape(value),
            low=TINY if np.all(value > 0) else -np.inf,
            finite=bool(np.isfinite(value).all()),
        )
    return {name: float(value) if value.ndim == 0 else value for name, value in values.items()}

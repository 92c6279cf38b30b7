"""Hands numbers to ArviZ, which is installed apart, in the form that it reads."""

from __future__ import annotations

import warnings
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_WITHOUT_DRAWS = ("observed_data",)  # groups whose arrays have no axes of chain and draw


def arviz_tree(
    groups: Mapping[str, Mapping[str, Any]],
    *,
    coords: Mapping[str, Any] | None = None,
    dims: Mapping[str, Any] | None = None,
    attrs_of: str,
) -> Any:
    """Return groups of arrays as the installed ArviZ reads them.

    Parameters
    ----------
    groups : dict of dict
        Arrays by name, the first two axes chain and draw, but for "observed_data".
    coords, dims : dict, optional
        Coordinates, and the names of the further axes of each array.
    attrs_of : str
        Group that says which library made it.

    Returns
    -------
    xarray.DataTree or arviz.InferenceData
        What ``arviz_base.from_dict`` returns; where ArviZ below 1.0 is installed, which reads no trees, its
        InferenceData with the same groups.

    Raises
    ------
    ImportError
        ArviZ is not installed.
    """
    attrs = {"inference_library": "expfam", "inference_library_version": version("expfam")}
    if _reads_no_trees():
        return _inference_data(groups, coords or {}, dims or {}, {attrs_of: attrs})
    try:
        from arviz_base import from_dict
    except ImportError as error:
        raise ImportError('to_arviz needs ArviZ: pip install "expfam[arviz]"') from error
    return from_dict(dict(groups), coords=coords, dims=dims, attrs={attrs_of: attrs})


def _reads_no_trees():
    """Return whether the installed ArviZ is older than 1.0; arviz-base alone makes trees."""
    try:
        return int(version("arviz").partition(".")[0]) < 1
    except PackageNotFoundError:
        return False


def _inference_data(groups, coords, dims, attrs):
    """Return the InferenceData of ArviZ below 1.0."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # each import of these versions tells that 1.0 is near
        import arviz
    made = {}
    for group, arrays in groups.items():
        own_dims = {name: list(dims[name]) for name in arrays if name in dims}
        used = {axis for axes in own_dims.values() for axis in axes}
        made[group] = arviz.dict_to_dataset(
            dict(arrays),
            coords={axis: values for axis, values in coords.items() if axis in used},
            dims=own_dims,
            attrs=attrs.get(group),
            default_dims=[] if group in _WITHOUT_DRAWS else None,
        )
    return arviz.InferenceData(**made)

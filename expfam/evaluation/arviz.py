"""Hands numbers to ArviZ, which is installed apart."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def arviz_tree(
    groups: Mapping[str, Mapping[str, Any]],
    *,
    coords: Mapping[str, Any] | None = None,
    dims: Mapping[str, Any] | None = None,
    attrs_of: str,
) -> Any:
    """Return what ``arviz_base.from_dict`` makes of groups of arrays.

    Parameters
    ----------
    groups : dict of dict
        Arrays by name, the first two axes chain and draw.
    coords, dims : dict, optional
        Coordinates, and the names of the further axes of each array.
    attrs_of : str
        Group that says which library made it.

    Returns
    -------
    xarray.DataTree

    Raises
    ------
    ImportError
        arviz-base is not installed.
    """
    try:
        from arviz_base import from_dict
    except ImportError as error:
        raise ImportError('to_arviz needs arviz-base: pip install "expfam[arviz]"') from error
    attrs = {"inference_library": "expfam", "inference_library_version": version("expfam")}
    return from_dict(dict(groups), coords=coords, dims=dims, attrs={attrs_of: attrs})

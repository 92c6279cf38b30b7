"""Loading of proposals, anchor laws and allocators by name, for all kernels."""

from __future__ import annotations

from typing import Any

from expfam.plugins.registry import load_proposal


def named_proposal(proposal: Any) -> Any:
    """Return the proposal, anchor law or allocator of a name; return an object unchanged.

    Parameters
    ----------
    proposal : str or Proposal, Anchors or Allocator
        Name of a registered plugin, see `expfam.list_plugins`, or an object.

    Returns
    -------
    Proposal, Anchors or Allocator
        For a name with default settings.

    Raises
    ------
    PluginError
        The name is unknown; the message lists the known names.

    Examples
    --------
    >>> from expfam.samplers.proposals.by_name import named_proposal
    >>> named_proposal("table") == named_proposal(named_proposal("table"))
    True
    """
    return load_proposal(proposal) if isinstance(proposal, str) else proposal

"""Loading of proposals, anchor laws and allocators by name, for all kernels."""

from __future__ import annotations

from typing import Any

from expfam.plugins.registry import load_proposal


def named_proposal(proposal: Any) -> Any:
    """Return the proposal, anchor law or allocator of a name; return an object unchanged.

    A name gives default settings. An unknown name raises a PluginError that lists the known ones.
    """
    return load_proposal(proposal) if isinstance(proposal, str) else proposal

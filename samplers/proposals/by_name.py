"""Proposals, anchor laws and allocators that are given by name: one rule for every kernel that takes one."""

from expfam.plugins.registry import load_proposal


def named_proposal(proposal):
    """The proposal, anchor law or allocator that a name stands for, with default settings; an object as it is.

    Parameters
    ----------
    proposal : str or Proposal, Anchors or Allocator
        Name of a registered one, see `expfam.list_plugins`, or the object.

    Returns
    -------
    Proposal, Anchors or Allocator

    Raises
    ------
    PluginError
        No such name; the message lists those that there are.

    Examples
    --------
    >>> from expfam.samplers.proposals.by_name import named_proposal
    >>> named_proposal("table") == named_proposal(named_proposal("table"))
    True
    """
    return load_proposal(proposal) if isinstance(proposal, str) else proposal

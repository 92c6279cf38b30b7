"""Base class of the assignment proposals.

A proposal is a law q(k | i) from which the next cluster k of a datum i is drawn. A Metropolis test with the exact
predictive makes every law exact if both directions of a move use the same q. The modes of `CollapsedMetropolis` ensure
this: the statistics that a proposal is given leave out the data that are to be moved.
"""

from __future__ import annotations

from typing import Any

from expfam.params import PartSettings

MODES = ("crossfit", "removed", "included", "frozen", "published", "asynchronous")


class Proposal(PartSettings):
    """Base class of the assignment proposals: settings that do not change.

    Its method `bind` makes the bound proposal, the object that works in a run. Subclasses set `modes` and write
    `bind(model, data, *, seed)`, whose result has

    - ``capsule`` : PyCapsule named "expfam.proposal_v1" with a C struct `proposal_v1`;
    - ``refresh(snapshot)`` : use new statistics and forget all earlier ones;
    - ``to_arrays()`` and ``from_arrays(arrays)`` : save and restore every number that a later call reads and that
      `refresh` does not compute again;

    and optionally, if they are cheap,

    - ``shift(snapshot, added, removed)`` : like `refresh`, if the statistics changed only by some data: first ``added =
      (rows, slots)``, then ``removed = (rows, slots)``. All are intp arrays, and a datum may be in both. It needs two
      attributes: ``is_exact`` tells whether every sequence of shifts gives the same bits as one `refresh`;
      ``takes_data`` tells whether the proposal prefers a refresh with empty clusters and a shift by all data to a
      refresh with sums;
    - ``reserve(n_slots)`` : allocate memory for this many slots. The modes "removed", "included", "published" and
      "asynchronous" need it, because they add slots one by one;
    - ``pending`` : the exception behind a result EXPFAM_PYTHON.

    Examples
    --------
    >>> from expfam.samplers import Proposal, TableProposal
    >>> isinstance(TableProposal(), Proposal), sorted(TableProposal.modes)
    (True, ['crossfit', 'frozen', 'included', 'removed'])

    Notes
    -----
    A proposal must satisfy three conditions. q(k | i) > 0 for every slot of the snapshot, and for EXPFAM_NEW if
    ``log_weight_new`` is finite. `log_prob` is the law of `draw`. The name of a slot means the same cluster until the
    next `refresh` or `shift`.
    """

    api_version = 1
    kind = "assignment"
    modes: frozenset[str] = frozenset()

    def memory(self, model: Any, data: Any, n_clusters: int) -> int:
        """Return how many bytes a bound proposal holds at most, without those of the data.

        It is computed from sizes only; nothing is allocated.

        Parameters
        ----------
        model, data : bound MixtureModel and Dataset
        n_clusters : int

        Returns
        -------
        int
            0 if the subclass does not override the method: the forecast of a run then leaves the proposal out.
        """
        return 0

    def bind(self, model: Any, data: Any, *, seed: int) -> Any:
        """Make the bound proposal for one model and data set.

        Parameters
        ----------
        model, data : bound MixtureModel and Dataset
        seed : int
            Seed of the chain, 64 bits. All that the proposal draws must follow from it.

        Returns
        -------
        object
            It has the methods that the docstring of the class lists.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement bind()")

"""What proposals share: settings, kind and interface version.

A proposal is a law q(k | i) over clusters from which a datum's next cluster is drawn; a Metropolis test with the exact
predictive makes any such law exact, provided that both directions of a move are judged by the same q. That is what the
modes of `CollapsedMetropolis` arrange: a proposal is shown statistics from which the data in question are left out.
"""

from expfam.params import Settings

MODES = ("crossfit", "removed", "included", "frozen", "published", "asynchronous")


class Proposal(Settings):
    """Base of the assignment proposals: frozen settings; `bind` makes the object that works in a run.

    Subclasses set `modes` and write `bind(model, data, *, seed)`, whose result has

    - ``capsule`` : PyCapsule named "expfam.proposal_v1" over a C struct `proposal_v1`;
    - ``refresh(snapshot)`` : take up new statistics, forgetting all former ones;
    - ``to_arrays()`` and ``from_arrays(arrays)`` : every number that a later call reads and `refresh` does not remake;

    and where it can do so cheaply

    - ``shift(snapshot, added, removed)`` : as `refresh`, told that the statistics changed by the data ``added = (rows,
      slots)`` and then ``removed = (rows, slots)``, all intp arrays, where a datum may be in both; with ``is_exact``,
      whether any sequence of shifts gives the same bits as one `refresh`, and ``takes_data``, whether it would rather
      be refreshed with nothing and shifted by all data than be given sums;
    - ``reserve(n_slots)`` : room for that many slots; needed for the modes "removed", "included", "published" and
      "asynchronous", in which slots are entered one by one;
    - ``pending`` : the exception behind a result EXPFAM_PYTHON.

    Examples
    --------
    >>> from expfam.samplers import Proposal, TableProposal
    >>> isinstance(TableProposal(), Proposal), sorted(TableProposal.modes)
    (True, ['crossfit', 'frozen', 'included', 'removed'])

    Notes
    -----
    Obligations. q(k | i) > 0 for every slot of the snapshot, and for EXPFAM_NEW while ``log_weight_new`` is finite;
    `log_prob` is the law of `draw`; a slot's name means the same cluster until the next `refresh` or `shift`.
    """

    api_version = 1
    kind = "assignment"
    modes: frozenset[str] = frozenset()

    def memory(self, model, data, n_clusters):
        """Bytes that a bound proposal holds at most beside the data, from sizes alone; nothing is allocated.

        Parameters
        ----------
        model : MixtureModel
        data : Dataset
        n_clusters : int

        Returns
        -------
        int
            0 unless a subclass tells: the forecast of a run then leaves the proposal out.
        """
        return 0

    def bind(self, model, data, *, seed):
        """Working object for one model and data set."""
        raise NotImplementedError(f"{type(self).__name__} does not implement bind()")

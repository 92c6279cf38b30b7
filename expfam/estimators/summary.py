"""A few lines of text about a fitted mixture."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from expfam.amounts import counted


class Summary:
    """Method `summary` of a mixture."""

    n_components: Any
    n_components_: int
    cluster_sizes_: Any

    def summary(self) -> str:
        """Return what was found, in a few lines of text.

        The first line has the number of clusters. If that number was open, it names the method that merges them, and
        after `coarsen()` or `coarsening_curve_` how many groups halves of the data agree on. The second one has their
        sizes. A third one counts the known rows, and those that the data contradict, after a fit with classes of rows.

        Returns
        -------
        str

        Examples
        --------
        >>> import numpy as np
        >>> from expfam import Mixture
        >>> X = np.random.default_rng(0).normal(size=(90, 2)) + 20 * np.repeat(np.eye(3, 2), 30, axis=0)
        >>> print(Mixture(random_state=0).fit(X).summary())
        3 clusters; coarsen() merges them
        90 rows: 30 in the largest cluster, 30 in the smallest
        """
        check_is_fitted(self)
        found = counted(self.n_components_, "cluster", spec=",")
        if self.n_components is None and self.n_components_ > 1:
            found += self._groups_text()
        sizes = np.asarray(self.cluster_sizes_)
        total = counted(sizes.sum(), "row", spec=",.6g")
        largest, smallest = f"{sizes.max():,.6g}", f"{sizes.min():,.6g}"
        known = self._known_text()
        if self.n_components_ == 1:
            return f"{found}\n{total}{known}"
        return f"{found}\n{total}: {largest} in the largest cluster, {smallest} in the smallest{known}"

    def _groups_text(self):
        """Return how many groups halves of the data agree on, where that is known."""
        held = self.__dict__.get("_coarsening_curve")
        if held is None or held[0] is not self.n_:
            return "; coarsen() merges them"
        n_groups = held[2].n_clusters
        return (
            ", on which halves of the data agree"
            if n_groups == self.n_components_
            else f", of which halves of the data agree on {n_groups:,}: coarsen()"
        )

    def _known_text(self):
        """Return a line on the rows whose class was known, or nothing."""
        given = self.__dict__
        parts = [f"{given['n_known_']:,} of known class"] if given.get("n_known_") else []
        if "doubtful_known_" in given and (parts or given["doubtful_known_"].size):
            n = given["doubtful_known_"].size
            parts.append(f"the data contradict {n:,} of them, see doubtful_known_" if n else "the data contradict none")
        return f"\n{'; '.join(parts)}" if parts else ""

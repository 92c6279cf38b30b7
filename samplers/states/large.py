"""How many clusters are large."""

import numpy as np
import numpy.typing as npt

MIN_SHARE = 0.001  # of the data, from which a cluster is large


def count_large(sizes: npt.NDArray[np.integer | np.floating]) -> int:
    """Return the number of clusters that hold at least a thousandth of the data.

    >>> import numpy as np
    >>> from expfam.samplers.states.large import count_large
    >>> count_large(np.array([5000, 2, 300, 0]))
    2
    """
    return int((sizes >= np.maximum(MIN_SHARE * sizes.sum(), 1.0)).sum())

"""Models of rows and documents that lie on the workers of a Dask cluster.

>>> from expfam.dask import Mixture                                        # doctest: +SKIP
>>> mixture = Mixture("gaussian_diag", 20, random_state=0).fit(X)          # doctest: +SKIP
"""

from expfam.dask.groups import GroupedMixture
from expfam.dask.mixture import Mixture
from expfam.dask.tables import columns_from_frame
from expfam.dask.topics import TopicModel

__all__ = ["GroupedMixture", "Mixture", "TopicModel", "columns_from_frame"]

"""What kernels ask of a model and of data in groups, and the clusters that they begin with."""

from expfam.errors import CapabilityError
from expfam.model.admixture import check_clusters
from expfam.model.mixture import MixtureModel
from expfam.model.weights import SymmetricDirichlet
from expfam.samplers.starts.rules import starting_labels


def check_grouped(model, data, kernel):
    """Refuse models that are no admixtures, and data without groups."""
    if getattr(model, "n_components", None) is None:
        raise CapabilityError(f"{kernel} works on an AdmixtureModel; got {model!r}")
    if data.groups is None:
        raise CapabilityError(f"{kernel} needs the group of each row: give it a Dataset(X, family, groups=...)")


def first_clusters(start, model, data, seed, n_clusters, n_threads=None):
    """Starting clusters of rows in groups, by the rules for mixtures, below K: (N,) int32."""
    if not isinstance(start, str) and not callable(getattr(start, "labels", None)):
        return check_clusters(start, data.n_rows, model.n_components)
    mixture = MixtureModel(model.family, SymmetricDirichlet(model.n_components))
    return starting_labels(start, mixture, data, seed=seed, n_clusters=n_clusters, n_threads=n_threads)

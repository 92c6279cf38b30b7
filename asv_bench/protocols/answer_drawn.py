"""Groups whose arrangement is drawn by lot: which of them a default fit finds."""

from typing import NamedTuple

import numpy as np
from answer_rivals import ari, kmeans_of, mixture_of

from expfam import Dataset, Mixture, load_family

FAMILIES = ("gaussian_diag", "gaussian")
COLUMNS, ROWS, GROUPS = (2, 3, 5, 8, 15), (400, 1000, 2500), (2, 15)
TOLD = 0.95  # ARI that the groups' own densities reach; sets of less are left out
NEAR, SHRUNK = (0.4, 0.9), (0.3, 0.7)  # the same for groups that overlap, and how much nearer they are
FEWEST_ROWS = 15  # of a group
STANDARDISED = 0.6  # share of the sets
FOUND = 0.9  # share of what the groups' own densities reach, from which a fit has found them


class Drawn(NamedTuple):
    """Rows, groups, how they are arranged, and the ARI of the densities that they were drawn from."""

    kind: str
    X: np.ndarray
    truth: np.ndarray
    oracle: float

    @property
    def n_groups(self):
        """Number of groups."""
        return int(self.truth.max()) + 1

    def may_have(self, family):
        """Tell whether the rows of a group are as many as the numbers of a covariance."""
        d = self.X.shape[1]
        return family != "gaussian" or len(self.X) >= self.n_groups * d * (d + 3) / 2


def _means(kind, K, d, rng):
    means, telling = np.zeros((K, d)), int(rng.integers(1, min(d, 4) + 1))
    places = np.arange(K)
    if kind == "row":
        means[:, 0] = places * rng.uniform(4.5, 8.0)
    elif kind == "two rows":
        means[:, 0], means[:, 1] = places // 2 * 8.0, places % 2 * 8.0
    elif kind == "grid":
        side = int(np.ceil(np.sqrt(K)))
        means[:, 0], means[:, 1] = places // side * 6.0, places % side * 6.0
    elif kind == "nested":
        outer = 40.0 * rng.normal(size=(max(2, K // 4), d))
        means = outer[rng.integers(0, len(outer), K)] + 5.0 * rng.normal(size=(K, d))
    elif kind == "slanting row":
        way = rng.normal(size=d)
        means = np.outer(7.0 * places, way / np.linalg.norm(way))
    else:
        means[:, :telling] = rng.normal(size=(K, telling)) * rng.uniform(4.0, 12.0)
    return means


KINDS = ("scattered", "row", "two rows", "grid", "nested", "slanting row", "unequal sizes", "unequal spreads")


def drawn_set(seed, overlap=False):
    """A set, or None where its groups overlap more or less than asked for, or have few rows."""
    rng = np.random.default_rng(seed)
    kind, d, n = str(rng.choice(KINDS)), int(rng.choice(COLUMNS)), int(rng.choice(ROWS))
    K = int(rng.integers(GROUPS[0], GROUPS[1] + 1))
    shares = rng.dirichlet(np.ones(K)) * 0.9 + 0.1 / K if kind == "unequal sizes" else np.full(K, 1.0 / K)
    spreads = np.exp(0.6 * rng.normal(size=K)) if kind == "unequal spreads" else np.ones(K)
    nearer = rng.uniform(*SHRUNK) if overlap else 1.0
    means, truth = nearer * _means(kind, K, d, rng), rng.choice(K, size=n, p=shares)
    X = means[truth] + rng.normal(size=(n, d)) * spreads[truth][:, None]
    scores = -0.5 * ((X[:, None] - means) ** 2).sum(axis=2) / spreads**2 - d * np.log(spreads) + np.log(shares)
    oracle = ari(truth, scores.argmax(axis=1))
    is_told = NEAR[0] <= oracle < NEAR[1] if overlap else oracle >= TOLD
    if not is_told or np.bincount(truth, minlength=K).min() < FEWEST_ROWS:
        return None
    if rng.random() < STANDARDISED:
        X = (X - X.mean(axis=0)) / X.std(axis=0)
    return Drawn(kind, X, truth, oracle)


def fits_of(seed, overlap=False):
    """Figures of each default fit of a set: kind, whether the number is given, and agreement."""
    one = drawn_set(seed, overlap)
    for family in FAMILIES if one is not None else ():
        if not one.may_have(family):
            continue
        beside = kmeans_of(Dataset(one.X, load_family(family)), one.truth, one.n_groups, seed)
        for K in (None, one.n_groups):
            fits = {"ARI": {}, "variational ARI": {"sampler": "variational"}} if overlap else {"ARI": {}}
            own = {
                name: ari(one.truth, Mixture(family, K, random_state=seed, **settings).fit(one.X).labels_)
                for name, settings in fits.items()
            }
            rival = mixture_of(family, one.X, one.truth, K, seed)
            yield {
                "kind": one.kind,
                "row": f"{seed}: {one.kind}, {len(one.X)} x {one.X.shape[1]}, {one.n_groups} groups, {family}",
                "K": "open" if K is None else "given",
                **own,
                "found": own["ARI"] >= FOUND * one.oracle,
                "GMM ARI": rival["GMM ARI"],
                "GMM found": (rival["GMM ARI"] or 0.0) >= FOUND * one.oracle,
                "km ARI": beside["km ARI"],
                "own densities": one.oracle,
            }


def table_of(fits):
    """One line for each kind and way, and one for all."""
    for kind in (*KINDS, None):
        for way in ("open", "given"):
            own = [fit for fit in fits if fit["K"] == way and kind in (None, fit["kind"])]
            if own:
                names = [name for name in own[0] if name.endswith("ARI") or name == "own densities"]
                means = {name: float(np.mean([fit[name] for fit in own])) for name in names}
                counts = {name: sum(fit[name] for fit in own) for name in ("found", "GMM found")}
                yield {"groups": kind or "all", "K": way, "fits": len(own), **counts, **means}

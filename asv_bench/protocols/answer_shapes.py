"""Generated data of many shapes, for the question whether a fit is below what anybody can write down."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests" / "support"))  # the generators stand there

import count_shapes as counts
import vector_shapes as vectors

from expfam import SphericalGaussian

DIAG, FULL, SPHERICAL = GAUSSIANS = ("gaussian_diag", "gaussian", "gaussian_spherical")
SHARED = "gaussian_spherical_shared"
OBJECTS = {SHARED: lambda: SphericalGaussian(variance="shared")}  # families that no name stands for
VECTORS = ("von_mises_fisher", DIAG, SPHERICAL, SHARED)
AUTO = "auto"
SMALL = 2000  # rows


class Shape(NamedTuple):
    """Data with known clusters.

    Attributes
    ----------
    name : str
    make : callable
        (seed) -> rows and their true clusters.
    families : tuple of str
        Those that fit the shape.
    n_rows : int
    given : int
        Number of clusters that is given in half of the fits.
    seeds : int or None
        The most that are worth their time.
    way : {"fit", "chunks", "groups"}
        How it is fitted: all at once, by `partial_fit` of four chunks, or by `GroupedMixture`.
    """

    name: str
    make: Callable[[int], tuple[Any, np.ndarray]]
    families: tuple[str, ...]
    n_rows: int
    given: int
    seeds: int | None = None
    way: str = "fit"

    @property
    def is_small(self):
        return self.n_rows <= SMALL and self.seeds is None


def family_of(name):
    """What `Mixture` is given for the name of a family."""
    return OBJECTS[name]() if name in OBJECTS else name


def shapes():
    """All shapes."""
    of_vectors = (_blobs, _far_groups, _uneven, _repeated, _of_sizes, _bent, _wide, _odd, _other_ways)
    of_counts = (_of_counts, _of_categories, _of_tables)
    return [shape for some in (*of_vectors, *of_counts) for shape in some()]


# ---- real values -----------------------------------------------------------------------------------------------------


def _blobs():
    for n, d in ((500, 1), (500, 4), (2000, 2), (2000, 8), (5000, 2), (5000, 8), (5000, 16), (20_000, 2), (20_000, 8)):
        yield Shape(f"blob-{n}x{d}", vectors.blob(n, d), GAUSSIANS, n, 3)
    for d in (1, 4, 16):
        yield Shape(f"blob-100000x{d}", vectors.blob(100_000, d), GAUSSIANS, 100_000, 3, 1)


def _far_groups():
    for k, d, n in ((2, 20, 1500), (2, 30, 1000), (2, 40, 1500), (3, 20, 1500), (3, 40, 1500)):
        yield Shape(f"components-{k}-{d}", vectors.components(n, d, k), (DIAG, FULL), n, k)
    yield Shape("telling-12", vectors.telling(1000, 12, 20.0), (DIAG, FULL), 1000, 2)
    yield Shape("telling-30", vectors.telling(1000, 30, 20.0), (DIAG, SPHERICAL), 1000, 2)
    yield Shape("telling-40", vectors.telling(1000, 40, 10.0), (DIAG,), 1000, 2)
    yield Shape("telling-40-near", vectors.telling(1000, 40, 6.0), (DIAG,), 1000, 2)
    yield Shape("telling-100-of-five", vectors.telling(1000, 99, 30.0, k=5), (DIAG,), 1000, 5)
    yield Shape("telling-50-of-twenty", vectors.telling(2000, 49, 10.0, k=20), (DIAG,), 2000, 20)
    for n, n_noise, k, gap in ((800, 1, 8, 5.0), (3000, 1, 10, 4.0), (3000, 4, 10, 5.0)):
        row = vectors.standardised(vectors.telling(n, n_noise, gap, k=k))
        yield Shape(f"row-of-{k}-{n}x{1 + n_noise}", row, (DIAG, FULL), n, k)
    for d, k in ((4, 3), (10, 4)):
        grid = vectors.standardised(vectors.lattice(3000, d, k, 5.0))
        yield Shape(f"grid-of-{k}x{k}-in-{d}", grid, (DIAG, FULL), 3000, k**2)
    yield Shape("telling-30-of-wide", vectors.telling(1000, 30, 20.0, noise=10.0), (DIAG,), 1000, 2)
    yield Shape("telling-12-of-wide", vectors.telling(1000, 12, 12.0, noise=30.0), (DIAG, FULL), 1000, 2)
    yield Shape("telling-30-of-narrow", vectors.telling(1000, 30, 8.0, noise=0.01), (DIAG,), 1000, 2)


def _uneven():
    yield Shape("unequal-sizes", vectors.unequal_sizes((900, 50, 50)), GAUSSIANS, 1000, 3)
    yield Shape("unequal-pair", vectors.unequal_sizes((1000, 10)), GAUSSIANS, 1010, 2)
    yield Shape("unequal-spreads", vectors.unequal_spreads(1000), GAUSSIANS, 1000, 2)
    yield Shape("unequal-units", vectors.unequal_units(900), (DIAG, FULL), 900, 3)
    yield Shape("heavy-tails-1", vectors.heavy_tails(1000, 1), (DIAG, FULL), 1000, 3)
    yield Shape("heavy-tails-3", vectors.heavy_tails(1500, 3), (DIAG, FULL), 1500, 3)
    yield Shape("pairs", vectors.pairs(1000), (DIAG, FULL), 1000, 3)
    yield Shape("zeros-1000-half", vectors.zeros(1000, 0.5), GAUSSIANS, 1000, 3)
    yield Shape("zeros-1000-most", vectors.zeros(1000, 0.8), (DIAG, FULL), 1000, 3)
    yield Shape("one-hot", vectors.one_hot(500), GAUSSIANS, 500, 4)
    yield Shape("outliers", vectors.outliers(500, 3, 5), (DIAG, FULL), 500, 3)
    yield Shape("rounded", vectors.rounded(1200), (DIAG, FULL), 1200, 3)


def _repeated():
    for n_constant in (5, 20):
        yield Shape(f"near-corners-constant-{n_constant}", vectors.near_corners(900, n_constant), GAUSSIANS, 900, 3)
    yield Shape("near-corners-copied", vectors.with_copies(900), GAUSSIANS, 900, 3)
    for step in (0.5, 1.0):
        yield Shape(f"coarse-triangle-{step}", vectors.coarse_triangle(900, step), GAUSSIANS, 900, 3)
    yield Shape("bounded-tenth", vectors.bounded(900, 0.1), GAUSSIANS, 900, 3)
    yield Shape("real-counts", vectors.real_counts(900), GAUSSIANS, 900, 3)
    yield Shape("with-binary", vectors.with_binary(900), GAUSSIANS, 900, 3)
    yield Shape("digits", vectors.digits, (DIAG, FULL), 1797, 10)


def _of_sizes():
    sizes = vectors.steps_of_sizes
    ten = vectors.scattered(sizes(10, 1000, 3000), 3, 6.0, shaped=True)
    yield Shape("ten-sizes-1000", ten, (FULL,), 3000, 10)
    yield Shape("eight-sizes-300", vectors.scattered(sizes(8, 300, 2000), 3, 5.0), (DIAG, FULL), 2000, 8)
    yield Shape("near-sizes-1000", vectors.scattered(sizes(5, 1000, 3000), 3, 2.0), (DIAG, FULL), 3000, 5)
    yield Shape("near-pair-in-four", vectors.scattered((400, 400), 2, 1.5), GAUSSIANS, 800, 4)
    yield Shape("twelve-near", vectors.scattered([100] * 12, 3, 3.0), GAUSSIANS, 1200, 12)
    yield Shape("near-eight", vectors.scattered([150] * 8, 2, 2.0, shaped=True), (FULL,), 1200, 8)


def _bent():
    yield Shape("strip", vectors.strip(1000), (DIAG, FULL), 1000, 2)
    yield Shape("strip-5000", vectors.strip(5000), (DIAG, FULL), 5000, 2)
    yield Shape("ring", vectors.ring(1000), GAUSSIANS, 1000, 8)
    yield Shape("moons", vectors.moons(1000), GAUSSIANS, 1000, 2)
    yield Shape("uniform-square", vectors.uniform(1000), GAUSSIANS, 1000, 4)
    yield Shape("cube-1500x5", vectors.uniform(1500, 5), GAUSSIANS, 1500, 5)
    yield Shape("blob-in-four", vectors.blob(500, 4), GAUSSIANS, 500, 4)
    yield Shape("grid-25", vectors.grid(1250), GAUSSIANS, 1250, 25)


def _wide():
    for n, d, k, seeds in ((3000, 16, 20, None), (1500, 40, 8, 2), (4000, 48, 6, 1), (20_000, 64, 20, 1)):
        yield Shape(f"wide-{n}x{d}", vectors.wide(n, d, k), (FULL, DIAG), n, k, seeds)
    for n, d in ((30, 200), (60, 100), (75, 60)):
        yield Shape(f"fewer-rows-{n}x{d}", vectors.plain(n, d, 3), (FULL, DIAG), n, 3)
    yield Shape("directions-1500x300", vectors.directions(1500, 300, 30, 2.0), VECTORS, 1500, 30, 2)
    yield Shape("directions-2000x384", vectors.directions(2000, 384, 40, 1.5), VECTORS, 2000, 40, 1)


def _odd():
    yield Shape("two-rows", vectors.two_rows, GAUSSIANS, 2, 2)
    yield Shape("two-values", vectors.two_values(60), (DIAG, FULL), 60, 3)
    yield Shape("constant-column", vectors.constant_column(600), (DIAG, FULL), 600, 3)


def _other_ways():
    yield Shape("chunks", vectors.plain(2000, 5, 4), (DIAG, FULL), 2000, 4, way="chunks")
    yield Shape("groups-of-components", vectors.components(1000, 30, 2), (DIAG,), 1000, 2, way="groups")
    yield Shape("groups-of-three", vectors.components(1200, 20, 3), (DIAG, FULL), 1200, 3, way="groups")


# ---- counts, categories and tables -----------------------------------------------------------------------------------


def _of_counts():
    both = ("poisson", "negative_binomial")
    yield Shape("words-short", counts.words(1500, 4, 8), ("multinomial",), 1500, 4)
    yield Shape("words-long", counts.words(600, 4, 80), ("multinomial",), 600, 4)
    yield Shape("words-one-topic", counts.words(800, 1, 30), ("multinomial",), 800, 2)
    yield Shape("words-many-topics", counts.words(4000, 30, 40), ("multinomial",), 4000, 30)
    yield Shape("poisson-blob", counts.poisson_blob(800, 5), both, 800, 2)
    yield Shape("poisson-blob-8000", counts.poisson_blob(8000, 5), both, 8000, 2)
    yield Shape("poisson-near", counts.near_rates(800, 5, 6, 0.35), ("poisson",), 800, 5)
    yield Shape("counts-many-zeros", counts.many_zeros(700, 0.5, 3), (*both, "multinomial"), 700, 3)
    yield Shape("poisson-strong", counts.strong_count(1000, 40), (*both, "multinomial"), 1000, 2)
    yield Shape("negative-binomial-telling", counts.overdispersed(1000, 40, 3.0), ("negative_binomial",), 1000, 2)
    yield Shape("geometric-telling", counts.overdispersed(1000, 40, 1.0), ("geometric",), 1000, 2)
    yield Shape("binary-3", counts.binary(400), ("bernoulli", AUTO), 400, 3)
    yield Shape("binary-noise", counts.binary_noise(1000, 10), ("bernoulli",), 1000, 2)


def _of_categories():
    yield Shape("categories-noise", counts.codes_of_noise(1000, 10), ("categorical",), 1000, 2)
    yield Shape("categories-noise-table", counts.table(counts.codes_of_noise(1000, 10)), (AUTO,), 1000, 2)
    yield Shape("categories-noise-table-4000", counts.table(counts.codes_of_noise(4000, 10)), (AUTO,), 4000, 2)
    yield Shape("strains", counts.strains(360, 12), ("categorical",), 360, 12)
    yield Shape("strains-table", counts.table(counts.strains(360, 12)), (AUTO,), 360, 12)
    yield Shape("latent-classes", counts.latent_classes(1000, 4), ("categorical",), 1000, 4)
    yield Shape("latent-classes-table", counts.table(counts.latent_classes(1000, 4)), (AUTO,), 1000, 4)


def _of_tables():
    yield Shape("table-telling-category", counts.telling_category(800), (AUTO,), 800, 3)
    yield Shape("table-noise-categories", counts.noise_categories(800), (AUTO,), 800, 2)
    yield Shape("table-holes", counts.holes(900), (AUTO,), 900, 3)
    yield Shape("table-of-noise", counts.table_of_noise(1000), (AUTO,), 1000, 2)

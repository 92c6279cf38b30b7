"""Wide rows: von Mises-Fisher clusters beside spherical Gaussians and k-means, on generated directions.

Run by hand: `python -m asv_bench.protocols.wide [vmf]`; `--quick` takes few rows. The exit status is 1 where a goal is
missed. Rows have K isotropic centres in 384 columns and unit length, float32. CPU seconds of one thread.

`vmf`: three collapsed sweeps from the true labels, which take turns with those of the spherical Gaussian; the goal is
1.2 times its time. Then the default call with K clusters, at most 90 s for 100,000 rows and K = 100, and its NMI beside
that of scikit-learn's k-means with one start.
"""

import argparse
import sys
import warnings
from pathlib import Path
from statistics import median
from time import process_time

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import normalized_mutual_info_score
from threadpoolctl import threadpool_limits

sys.path.append(str(Path(__file__).resolve().parent))  # for `python -m`, which knows the working folder alone

from reports import print_table, timed_step

from expfam import Mixture, MixtureModel, SphericalGaussian, SymmetricDirichlet, load_family
from expfam.samplers import CollapsedGibbs

COLUMNS = 384
SWEEPS = 3
MOST_OF_SPHERICAL = 1.2
MOST_SECONDS = 90.0


def directions(n_rows, n_clusters, spread=2.5, seed=0):
    """Unit rows about random centres, float32, and their clusters."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(n_clusters, size=n_rows, dtype=np.int32)
    X = rng.normal(size=(n_clusters, COLUMNS))[labels] + spread * rng.normal(size=(n_rows, COLUMNS))
    return (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32), labels


def sweeps(X, labels, n_clusters):
    """Median CPU seconds of a sweep of both families; their sweeps take turns."""
    kernel, states = CollapsedGibbs(), {}
    for family in (load_family("von_mises_fisher"), SphericalGaussian()):
        model = MixtureModel(family, SymmetricDirichlet(n_clusters, 1.0)).bind(X)
        states[family.name] = kernel.init(model, X, seed=0, start=labels)
    times = {name: [] for name in states}
    for _ in range(SWEEPS):
        for name, state in states.items():
            times[name].append(timed_step(kernel, state)[1][0])
    return {name: median(each) for name, each in times.items()}


def fits(X, labels, n_clusters):
    """CPU seconds and NMI of the default call and of k-means."""
    made = {
        "von_mises_fisher": Mixture("von_mises_fisher", n_components=n_clusters, random_state=0),
        "k-means": KMeans(n_clusters, n_init=1, random_state=0),
    }
    found = {}
    for name, estimator in made.items():
        begin = process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            estimator.fit(X)
        found[name] = process_time() - begin, normalized_mutual_info_score(labels, estimator.labels_)
    return found


def vmf(n_rows, n_clusters):
    """Print both tables and return whether all goals are reached."""
    X, labels = directions(n_rows, n_clusters)
    times = sweeps(X, labels, n_clusters)
    ratio = times["von_mises_fisher"] / times["gaussian_spherical"]
    each = {name: 1e9 * seconds / n_rows / n_clusters for name, seconds in times.items()}
    print_table(
        [{"sweep": name, "CPU s": times[name], "ns a row and cluster": each[name], "goal": ""} for name in times]
        + [{"sweep": "ratio", "CPU s": ratio, "ns a row and cluster": ratio, "goal": f"<= {MOST_OF_SPHERICAL}"}]
    )
    found = fits(X, labels, n_clusters)
    print_table([{"fit": name, "CPU s": seconds, "NMI": nmi} for name, (seconds, nmi) in found.items()])
    seconds, nmi = found["von_mises_fisher"]
    return ratio <= MOST_OF_SPHERICAL and seconds <= MOST_SECONDS and nmi >= found["k-means"][1] - 0.01


PROTOCOLS = {"vmf": vmf}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("subjects", nargs="*", help=f"of {', '.join(PROTOCOLS)}; all if none is named")
    parser.add_argument("--quick", action="store_true", help="10,000 rows and 20 clusters")
    arguments = parser.parse_args()
    unknown = set(arguments.subjects) - set(PROTOCOLS)
    if unknown:
        parser.error(f"unknown subject {sorted(unknown)[0]!r}; known: {', '.join(PROTOCOLS)}")
    size = (10_000, 20) if arguments.quick else (100_000, 100)
    with threadpool_limits(1):
        are_reached = [PROTOCOLS[name](*size) for name in arguments.subjects or PROTOCOLS]
    sys.exit(0 if all(are_reached) else 1)


if __name__ == "__main__":
    main()

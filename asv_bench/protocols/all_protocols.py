"""The commands of the report of all protocols, and so of all tables and figures of README and the pages.

A page shows no command that is not in this list, with the same settings: tests/benchmarks/test_commands_of_pages.py.
"""

import shlex
from typing import NamedTuple


class Protocol(NamedTuple):
    """A command, its arguments in the two profiles, and what it wants."""

    title: str
    script: str  # of this folder, or with its own one; or "asv", which is a program
    command: str  # sub-command and what all runs share
    quick: str | None = ""  # None: the quick profile leaves it out
    full: str | tuple[str, ...] = ""  # a tuple: so many runs
    wants_data: bool = False
    picture: str | None = None  # option that takes the path of a PNG
    takes_data: bool = False  # without data it leaves out rows

    def runs(self, profile):
        """Words of each run in a profile, without folders and pictures."""
        arguments = getattr(self, profile)
        each = [arguments] if isinstance(arguments, str) else arguments or ()
        return [shlex.split(f"{self.command} {more}") for more in each]


BESIDE_MALLET = "gibbs 'gibbs, eta learned' fit 'fit, eta held' mallet"

PROTOCOLS = [
    Protocol("Tables and figures of the five papers", "reproduce.py", "--out OUTPUT/reproduced", "--quick", "", True),
    Protocol(
        "Certificates of the samplers",
        "certificate.py",
        "--json OUTPUT/certificate.json --page OUTPUT/certificate.md",
        "--only gibbs,poisson,dp --replicates 20",
    ),
    Protocol("A version beside itself: noise of the machine", "versions.py", "", "--quick", "--bound 2"),
    Protocol("What asv knows of the machine", "asv", "machine --yes", None),
    Protocol(
        "Steps, scores and moves beside scikit-learn",
        "asv",
        "run --python=same --bench",
        None,
        ("'families|step'", "split_merge"),
    ),
    Protocol(
        "Structures",
        "structures.py",
        "",
        "all --rows 20000 --seconds .1",
        (
            "all",
            "trees --rows 1000000 --features 32 --clusters 1000",
            "trees --features 3",
            "trees --features 6",
            "noise --features 16",
        ),
    ),
    Protocol("Collapsed Gibbs on labelled texts", "real_data.py", "published", "--seeds 2", "--seeds 20", True),
    Protocol("Defaults on labelled texts", "real_data.py", "default", "--seeds 1 --names tweet", "--seeds 2", True),
    Protocol("Labelled vectors", "real_data.py", "dense", "--seeds 1 --steps 3", "--seeds 1", True),
    Protocol("Memory of a fit", "real_data.py", "memory", "--rows 50000"),
    Protocol("Labels by number of threads", "real_data.py", "threads", wants_data=True),
    Protocol(
        "Defaults beside scikit-learn",
        "defaults.py",
        "",
        "--quick --seeds 1 --only iris-full digits-spherical digits-bernoulli s2-spherical",
        "--seeds 3",
        takes_data=True,
    ),
    Protocol("NumPy families beside built-in ones", "plugins.py", "", "--rows 5000 --collapsed-rows 200 --steps 2"),
    Protocol(
        "FastEx: time to a log joint",
        "fastex.py",
        "compare --data-set zipf",
        "--documents 3000 --clusters 100 --seconds 2 --kernels FastEx",
        (
            "--clusters 1000 --kernels uncollapsed float32 FastEx --seconds 55",
            "--clusters 1000 --kernels FastEx --documents 1000000",
        ),
    ),
    Protocol(
        "FastEx: time to a log joint, labelled texts",
        "fastex.py",
        "compare --clusters 1000 --kernels uncollapsed float32 FastEx --seconds 12",
        None,
        ("--data-set googlenews", "--data-set searchsnippets", "--data-set stackoverflow"),
        wants_data=True,
    ),
    Protocol(
        "FastEx: microseconds a document",
        "fastex.py",
        "table1 --bits 64 128 512",
        "--clusters 100 --lengths 14 --documents 3000",
        ("--clusters 100 1000", "--clusters 10000 --lengths 100 --seeds 1 --repeats 2"),
    ),
    Protocol("FastEx: threads", "fastex.py", "threads", "--documents 10000 --clusters 100 --sweeps 2", "--sweeps 6"),
    Protocol("FastEx: copies of a corpus", "fastex.py", "copies", "--copies 2 --sweeps 2 --clusters 100", "", True),
    Protocol(
        "Canopy: a draw",
        "canopy.py",
        "draws",
        "--rows 5000 --repeats 1 --cases 256,16,.5 1024,32,1",
        "--rows 100000 --repeats 2 --cases 256,16,.5 1024,32,1 4096,64,.7 4096,32,.5 16384,64,1",
    ),
    Protocol(
        "Canopy: quality against time",
        "canopy.py",
        "quality --data-set nested",
        "--rows 20000 --clusters 256 --seconds 1 --kernels sem_dense sem_tree printed anchored em",
        (
            "--seconds 3",
            "--seconds 30 --rows 1000000 --clusters 4096",
            "--seconds 4 --rows 282144 --clusters 16384",
            "--seconds 3 --rows 100000 --clusters 256 --features 16",
        ),
        picture="--figure",
    ),
    Protocol(
        "Canopy: quality against time, patches and digits",
        "canopy.py",
        "quality --seconds 3",
        None,
        ("--data-set patches", "--data-set digits --clusters 100"),
        picture="--figure",
    ),
    Protocol(
        "Canopy: quality against time, labelled data",
        "canopy.py",
        "quality --seconds 3",
        None,
        ("--data-set birch1", "--data-set letter_recognition"),
        wants_data=True,
        picture="--figure",
    ),
    Protocol(
        "Canopy: growth",
        "canopy.py",
        "scaling",
        "--rows 5000 --clusters 64 --features 8 --rows-grid 2500 5000 --clusters-grid 64 128 --features-grid 8 16",
        picture="--figure",
    ),
    Protocol("Canopy: memory", "canopy.py", "memory", "--rows 20000 --clusters 64 --features 8 --kernels sem_dense em"),
    Protocol(
        "Canopy: starts and labelled data",
        "canopy.py",
        "table1",
        "--clusters-grid 10 --sweeps 5 --seeds 1 --kernels em printed anchored",
    ),
    Protocol("Partition of draws: search", "posterior.py", "search", "--rows 2000 --draws 30"),
    Protocol("Partition of draws: readings", "posterior.py", "readings", "--rows 2000 --draws 30"),
    Protocol("Partition of draws: coverage of balls", "posterior.py", "coverage", "--replicates 30"),
    Protocol("Default calls beside simple partitions", "answer.py", "search", "--quick --seeds 1 --shape two-rows"),
    Protocol("Groups that are drawn by lot", "answer.py", "drawn", "--sets 1 --first 129", "--sets 60"),
    Protocol(
        "Groups that are drawn by lot and overlap",
        "answer.py",
        "drawn --overlap",
        "--sets 1 --first 2",
        "--sets 40",
    ),
    Protocol("Groups that halves of the data find again", "answer.py", "groups", "--set wine", takes_data=True),
    Protocol(
        "Unknown numbers of topics: quality",
        "hdp.py",
        "quality",
        "--quick --data-sets tweet --topics 50",
        ("--seeds 1", ""),
        True,
    ),
    Protocol("Unknown numbers of topics: generated", "hdp.py", "generated", "--topics 5 --seeds 1 --documents 200"),
    Protocol("Unknown numbers of clusters of groups", "hdp.py", "groups", "--topics 5 --seeds 1 --documents 200"),
    Protocol("Unknown numbers of topics: a step", "hdp.py", "kernels", "--data-sets tweet --sweeps 4", "", True),
    Protocol(
        "Unknown numbers of topics: a step, generated", "hdp.py", "kernels --data-sets generated", None, "--sweeps 10"
    ),
    Protocol("Sweeps over parts of the data", "many_machines.py", "", "--quick"),
    Protocol(
        "Rows on disk beside their forecast",
        "scale.py",
        "--folder OUTPUT --remove",
        "--rows 3e5 --clusters 20 --chunk 5e4 --threads 1",
        (
            "--rows 1e7 --clusters 1000 --threads 1",
            "--rows 1e8 --clusters 5000 --passes 2 --threads 2 --json OUTPUT/rows_on_disk.json",
        ),
    ),
    Protocol(
        "Rows on disk, on the page of the papers",
        "reproduce.py",
        "canopy --only canopy-figure5 --kept OUTPUT/rows_on_disk.json --out OUTPUT/reproduced",
        None,
    ),
    Protocol("Means over draws beside one partition", "asides.py", "draws", takes_data=True),
    Protocol("Texts with merged clusters", "asides.py", "merged", None, wants_data=True),
    Protocol("Topics that halves of the documents find again", "asides.py", "topics", None),
    Protocol("A frame beside other tools", "asides.py", "frame"),
    Protocol("Tables beside stepmix", "tables.py", "", "--quick", ("score impute", "fit sweep flights arrays")),
    Protocol("Wide rows: von Mises-Fisher", "wide.py", "vmf", "--quick"),
    Protocol("Wide rows: sweeps beside products", "wide.py", "blocks", "--quick"),
    Protocol("Wide rows: embeddings beside faiss", "wide.py", "embeddings", "--quick"),
    Protocol("Wide rows: small groups that lie near each other", "wide.py", "noisy", "--quick"),
    Protocol("Wide rows: numbers of one and two bytes", "wide.py", "narrow", "--quick"),
    Protocol("Wide rows: counts of a million words", "wide.py", "counts", "--quick"),
    Protocol("Wide rows: trees of nearly constant categories", "wide.py", "levels", "--quick"),
    Protocol("Wide rows: exact draws beside all scores and faiss", "wide.py", "draws", "--quick"),
    Protocol("Wide rows: draws that keep lists of clusters", "wide.py", "lists", "--quick"),
    Protocol("Wide rows: steps of EM beside scikit-learn", "wide.py", "em", "--quick"),
    Protocol("Two threads beside one: steps over rows", "two_threads.py", "rows", "--quick"),
    Protocol("Two threads beside one: binding", "two_threads.py", "binding", "--quick"),
    Protocol("Two threads beside one: starts", "two_threads.py", "starts", "--quick"),
    Protocol("Two threads beside one: topics", "two_threads.py", "topics", "--quick"),
    Protocol("Known rows: what 5 % of labels do", "labels.py", "lift", "--quick", "--seeds 2", takes_data=True),
    Protocol("Known rows: a sweep", "labels.py", "sweep", "--quick"),
    Protocol("Known rows: linked groups", "labels.py", "links", "--quick"),
    Protocol("Known rows: seeds of topics", "labels.py", "seeds", "--quick", "", True),
    Protocol("Sparse variational: a pass", "variational.py", "passes", "--rows 4000 --held 500 --clusters 50"),
    Protocol(
        "Sparse variational: held-out score by sparsity",
        "variational.py",
        "curve",
        "--rows 3000 --held 500 --passes 3 --clusters 30 60 --active 1 4 dense",
        picture="--figure",
    ),
    Protocol(
        "Sparse variational beside scikit-learn",
        "variational.py",
        "peers",
        "--rows 2000 --held 500 --clusters 10 --passes 2 --active 4 dense",
    ),
    Protocol(
        "Sparse variational: what L loses",
        "variational.py",
        "sparsity",
        "--rows 3000 --held 500 --clusters 30 --passes 2",
    ),
    Protocol(
        "Sparse variational: selection", "variational.py", "select", "--rows 2000 --clusters 50 200 --active 1 4 dense"
    ),
    Protocol("Sparse variational: memory", "variational.py", "memory", "--rows 50000 --clusters 100", "--threads 2"),
    Protocol(
        "Sparse variational: rows on disk",
        "variational.py",
        "disk",
        "--rows 20000 --clusters 10 --passes 2 --features 8",
    ),
    Protocol("Sparse variational: moves", "variational.py", "moves", "--rows 3000 --clusters 15 --passes 5"),
    Protocol(
        "Sparse variational: rows in groups",
        "variational.py",
        "groups",
        "--rows 4000 --sizes 20 200 --clusters 150 --settle 1 --passes 2",
    ),
    Protocol(
        "Topics: held-out score against time",
        "topics.py",
        "quality",
        "--data-sets generated --rows 1500 --topics 20 --seconds 1",
        (
            "--data-sets generated --topics 200 --seconds 130 --methods unigram gibbs tomotopy gensim",
            "--data-sets generated --topics 200 --seconds 60 --methods active",
            "--data-sets faint --topics 200 --seconds 50",
        ),
        picture="--figure",
    ),
    Protocol(
        "Topics: held-out score on labelled texts",
        "topics.py",
        "quality",
        "--data-sets bbc_news --topics 20 --seconds 1",
        (
            "--data-sets searchsnippets tweet stackoverflow bbc_news --topics 50 200 --seconds 4",
            "--data-sets bbc_news --topics 1000 --seconds 12 --methods gibbs active tomotopy gensim",
            "--data-sets searchsnippets --topics 1000 --seconds 12 --methods gibbs active tomotopy gensim",
            f"--data-sets bbc_news --topics 50 --seconds 7 --methods {BESIDE_MALLET}",
        ),
        True,
        "--figure",
    ),
    Protocol(
        "Topics: a pass",
        "topics.py",
        "passes --data-sets generated",
        "--rows 1000 --topics 20 --repeats 1",
        "--topics 50 200",
    ),
    Protocol(
        "Topics: a pass on labelled texts",
        "topics.py",
        "passes",
        None,
        "--topics 1000 --ways dense active gibbs",
        wants_data=True,
    ),
    Protocol("Hierarchies: documents", "hierarchy.py", "documents", "--rows 1000 2000"),
    Protocol(
        "Hierarchies: columns",
        "hierarchy.py",
        "columns",
        "--cases diagonal,1000,10 full,500,10",
        ("", "--cases diagonal,100000,10 --trees knn --exponent 0"),
    ),
    Protocol(
        "Hierarchies: labelled data",
        "hierarchy.py",
        "sets",
        "--most-rows 1000",
        ("--most-rows 12000", "--sets letter_recognition --trees exact knn"),
        True,
    ),
    Protocol("Hierarchies: neighbours", "hierarchy.py", "neighbours", "--rows 1000 --grid 3 10"),
    Protocol("Hierarchies: copies of a row", "hierarchy.py", "copies", "--rows 1000"),
    Protocol("Hierarchies: odds of given trees", "hierarchy.py", "rescoring", "--rows 1000"),
    Protocol("Hierarchies: memory", "hierarchy.py", "memory", "--rows 1000"),
    Protocol(
        "Split and merge: the paper's table", "split_merge.py", "table1", "--sizes 100 1000 --seeds 1 --seconds .5"
    ),
    Protocol("Split and merge: the printed formulas", "tests/references/split_merge_printed.py", "", None),
    Protocol(
        "Split and merge: seconds to a gap",
        "split_merge.py",
        "gap",
        "--rows 2000 --clusters 20 --seeds 1 --seconds 1",
        (
            "--kernels gibbs rgsm sdds lshsm minsm auto cycle",
            "--rows 100000 --clusters 100 --kernels rgsm sdds auto cycle --shares .5 .8 --seeds 3 --seconds 20",
            "--rows 20000 --clusters 400 --kernels gibbs rgsm sdds auto --start shattered",
        ),
    ),
    Protocol(
        "Split and merge: many clusters",
        "split_merge.py",
        "twin",
        "--rows 2000 --clusters 50 --features 10 --seconds 1",
        (
            "--starts shattered --seconds 150",
            "--starts shattered --kernels rgsm sdds --moves 300 --share .95 --seconds 150",
            "--starts shattered --rows 36000 --clusters 500",
            "--starts shattered --rows 36000 --clusters 500 --kernels rgsm sdds --moves 300 --share .95",
        ),
    ),
    Protocol(
        "Split and merge: labelled data",
        "split_merge.py",
        "real",
        "--names tweet --seconds 1",
        (
            "--kernels cycle gibbs sdds rgsm --starts auto --seconds 8 --seeds 3",
            "--kernels cycle --starts random kmeans++ variational --seeds 3 --seconds 2",
            "--kernels cycle --starts random kmeans++ variational --seeds 3 --seconds 8",
        ),
        True,
    ),
    Protocol(
        "Split and merge: effective samples",
        "split_merge.py",
        "equilibrium",
        "--rows 300 --clusters 5 --seeds 2 --seconds .5",
        "--rows 200 --clusters 4 --features 2 --overlap 2.5 --separation 3 --seconds 5 --seeds 12",
    ),
    Protocol(
        "Split and merge beside scikit-learn",
        "split_merge.py",
        "peer",
        "--rows 1000 --clusters 10 --seeds 1 --seconds 2",
        ("--seconds 60", "--seconds 60 --rows 100000 --clusters 100"),
    ),
    Protocol(
        "Split and merge: log joint against moves and seconds",
        "split_merge.py",
        "figure",
        "--rows 500 --seeds 1 --seconds 1",
        picture="--png",
    ),
    Protocol(
        "Together: FastEx and split-merge moves",
        "composing.py",
        "moves",
        "--rows 2000 --clusters 30 --seconds 1",
        "--seconds 20",
        picture="--figure",
    ),
    Protocol(
        "Together: FastEx and split-merge moves, labelled data",
        "composing.py",
        "moves",
        "--data-sets tweet --seconds 1",
        "--data-sets googlenews birch1 --seconds 20",
        True,
        "--figure",
    ),
    Protocol(
        "Together: variational starts of exact chains",
        "composing.py",
        "starts",
        "--rows 2000 --clusters 30 --truncation 60 --seconds 1",
        "--seconds 20",
        picture="--figure",
    ),
    *(
        Protocol(
            f"Together: candidates of variational passes, {name}",
            "composing.py",
            f"candidates --data-set {name}",
            "--rows 3000 --clusters 150 --passes 4",
            sizes,
            picture="--figure",
        )
        for name, sizes in (
            ("spherical", ""),
            ("diagonal", ""),
            ("documents", "--rows 100000 --clusters 1000"),
            ("patches", "--rows 100000 --clusters 1000"),
        )
    ),
    Protocol(
        "Together: a tree over the clusters of a sampler",
        "composing.py",
        "hierarchy",
        "--rows 3000 --clusters 30 --seconds 1",
        picture="--figure",
    ),
]

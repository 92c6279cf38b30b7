"""Topics whose number is unknown, beside given numbers and other packages.

Run by hand: `python -m asv_bench.protocols.hdp quality --data DIR` in the folder of the project; `--quick` takes some
minutes. Other packages need the extra `bench`.

Protocols:

quality    held-out score of TopicModel(None), by sampling on one thread and on several and by variational inference,
           beside TopicModel(K) for several K and the eta of either kind, and beside the hierarchical processes of
           tomotopy and gensim: nats a
           left-out token, a fifth of the word types of held-out documents, weights from the rest by one rule for all.
           "means" is the score of means over sweeps, "draws" that of means over 50 draws of the topics, which
           TopicModel(None) keeps by default. Also the number of topics, and CPU seconds. Goals, and exit status 1
           where one is missed: the draws of TopicModel(None) score no less than the means of the best TopicModel(K);
           a fit takes at most 1.3 times as long as that of TopicModel(K), eta learned, with as many topics; a
           hundred sweeps, without a search for the start, score more than tomotopy does, in a fifth of its time. Means
           over seeds decide.
generated  the number of topics that TopicModel(None) lists after 200 sweeps, and of large ones, for documents of a
           known number. The exit status is 1 where the number of large ones is off by more than one.
groups     the same for rows in 60 groups, GroupedMixture(None) of normal and of Poisson columns.
kernels    nanoseconds a token of a step, with a given and an unknown number of topics, of splits and merges, and of
           documents that are drawn on one thread and on two, with four times as many places as topics. The data set
           "generated" has four million tokens.

One thread, and CPU seconds are those of the process, but for documents on two threads: wall time, on an idle machine.
Real data are not shipped: DIR holds text/*.npz.
"""

import argparse
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
from scipy import sparse

sys.path.append(str(Path(__file__).resolve().parent))  # for `python -m`, which knows the working folder alone

from hdp_rivals import RIVALS
from real_data import load
from reports import print_growing, print_table

from expfam import AdmixtureModel, FiniteProcess, GroupedMixture, HierarchicalProcess, Multinomial, TopicModel
from expfam.estimators.topic_draws import all_topics, drawn_topics
from expfam.evaluation.held_out import document_completion
from expfam.model.finite_process import default_n_places
from expfam.samplers import DocumentGibbs, TopicGibbs, TopicProcessGibbs, TopicProcessSplitMerge
from expfam.samplers.states.large import count_large

MANY = "generated"  # data set of kernels that is made, not read
UNKNOWN, SHORT, AS_MANY = "unknown", "unknown, 100 sweeps", "as many, eta auto"
DRAWS = {"n_draws": 50}  # those that TopicModel(None) keeps by default
_HELD = 500  # documents, at most a fifth
_MOST_CLUSTERS = 20  # of 1500 rows
RUN = {"n_warmup": 100, "n_steps": 100}


def halves(name, args):
    """Training and held-out documents of a text."""
    X = load(args.data, name)[0].astype(np.int64)
    order = np.random.default_rng(0).permutation(X.shape[0])
    held = min(X.shape[0] // 5, _HELD)
    return X[np.sort(order[held:])], X[np.sort(order[:held])]


def timed_fit(model, X):
    """Fitted model and CPU seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # empty documents
        begin = process_time()
        return model.fit(X), process_time() - begin


def quality(args):
    """Scores, number and seconds of each model."""
    for name in args.data_sets:
        X, held = halves(name, args)
        for seed in range(args.seed, args.seed + args.seeds):
            yield from ours(name, X, held, seed, args.topics)
            for label in args.rivals:
                topics, alpha, n_topics, seconds = RIVALS[label](X, seed)
                score = document_completion(topics, alpha, held)[0]
                large = count_large((topics - topics.min()).sum(axis=1))
                yield row_of(name, label, seed, score, "", n_topics, large, seconds)


def ours(name, X, held, seed, topics):
    """Rows of an unknown number of topics, and of given ones."""
    models = {f"K={K}, eta {eta}": TopicModel(K, eta=eta, **DRAWS) for K in topics for eta in (0.01, "auto")}
    unknown = {
        UNKNOWN: TopicModel(None),
        SHORT: TopicModel(None, start="variational", n_warmup=60, n_steps=40),
        "unknown, variational": TopicModel(None, sampler="variational"),
        "unknown, documents": TopicModel(None, sampler="documents"),
    }
    for label, model in (unknown | models).items():
        model, seconds = timed_fit(model.set_params(random_state=seed), X)
        yield fitted_row(name, label, seed, model, held, seconds)
        if label == UNKNOWN:
            model, seconds = timed_fit(TopicModel(len(model.components_), eta="auto", random_state=seed), X)
            yield fitted_row(name, AS_MANY, seed, model, held, seconds)


def fitted_row(name, label, seed, model, held, seconds):
    """Row of a fitted model, scored with the means over sweeps, and with its draws where it has kept some."""
    draws = model.score(held) if drawn_topics(model) else ""
    large = count_large((model.components_ - model.eta_).sum(axis=1))
    means = document_completion(*all_topics(model), held)[0]
    return row_of(name, label, seed, means, draws, len(model.components_), large, seconds)


def row_of(name, label, seed, means, draws, topics, large, seconds):
    """Row of the table of quality."""
    scores = {"means": means, "draws": draws}
    return {"model": label, "data": name, "seed": seed} | scores | {"topics": topics, "large": large, "CPU s": seconds}


def goals_of_quality(rows):
    """What the rows of one data set are to reach: goal, ours, and the least or most of it."""

    def mean(label, figure):
        return float(np.mean([row[figure] for row in rows if row["model"] == label]))

    labels = {row["model"] for row in rows}
    given = {label: mean(label, "means") for label in labels if label.startswith("K=")}
    best = max(given, key=given.get)
    found = [
        goal_row("score, draws", mean(UNKNOWN, "draws"), ">=", given[best], f"means of {best}"),
        goal_row("CPU s", mean(UNKNOWN, "CPU s"), "<=", 1.3 * mean(AS_MANY, "CPU s"), "1.3 times those of as many"),
    ]
    rivals = [label for label in labels if label.startswith("tomotopy")]
    if rivals:
        rival = max(rivals, key=lambda label: mean(label, "means"))
        found.append(goal_row("score of few sweeps", mean(SHORT, "draws"), ">=", mean(rival, "means"), rival))
        found.append(goal_row("CPU s of few sweeps", mean(SHORT, "CPU s"), "<=", mean(rival, "CPU s") / 5, rival))
    return [{"data": rows[0]["data"]} | row for row in found]


def goal_row(what, value, relation, bound, of):
    """Row of the table of goals."""
    is_reached = value >= bound if relation == ">=" else value <= bound
    return {
        "goal": what,
        "ours": value,
        "": relation,
        "bound": bound,
        "of": of,
        "reached": "yes" if is_reached else "NO",
    }


def documents_of(K, n_documents, seed):
    """Documents of 80 words of K topics over 20 K words, of which eta is .05."""
    rng = np.random.default_rng(seed)
    topics, alpha = rng.dirichlet(np.full(20 * K, 0.05), size=K), np.full(K, 2.0 / K)
    return np.array([rng.multinomial(80, w @ topics) for w in rng.dirichlet(alpha, size=n_documents)])


def generated(args):
    """Numbers of topics that a fit of 200 sweeps lists, and of large ones."""
    for K in args.topics:
        for corpus in range(args.seeds):
            model, seconds = timed_fit(
                TopicModel(None, random_state=args.seed, **RUN), documents_of(K, args.documents, corpus)
            )
            yield found_in("words", K, corpus, model, model.sizes_, seconds) | {"eta": model.eta_}


def groups(args):
    """Numbers of clusters that a fit of rows in groups lists, and of large ones."""
    for family in ("gaussian_diag", "poisson"):
        for K in [K for K in args.topics if K <= _MOST_CLUSTERS]:
            for seed in range(args.seeds):
                X, of_row = rows_of(family, K, seed)
                model = GroupedMixture(family, None, random_state=args.seed, **RUN)
                begin = process_time()
                model.fit(X, groups=of_row)
                yield found_in(family, K, seed, model, model.n_, process_time() - begin)


def rows_of(family, K, seed, *, n_rows=1500, n_groups=60):
    """Rows of K clusters, and the group of each."""
    rng = np.random.default_rng(seed)
    shares, of_row = rng.dirichlet(np.full(K, 0.5), size=n_groups), rng.integers(n_groups, size=n_rows)
    z = np.array([rng.choice(K, p=shares[g]) for g in of_row])
    if family == "poisson":
        return rng.poisson(rng.gamma(0.5, 10.0, size=(K, 8))[z]), of_row
    return rng.normal(0.0, 6.0, size=(K, 3))[z] + rng.normal(size=(n_rows, 3)), of_row


def found_in(kind, K, seed, model, sizes, seconds):
    """Row of a table of numbers that were found: listed, large ones of these, and large ones of one step."""
    of_step = int(np.median(model.trace_.column("n_large")[-RUN["n_steps"] :]))
    found = {"listed": len(sizes), "large": count_large(sizes), "of a step": of_step}
    return {"data": kind, "true": K, "seed": seed} | found | {"CPU s": seconds}


def many_documents(K=100, n_documents=50_000, block=5_000):
    """Counts of many documents as those of `documents_of`, in CSR."""
    rng = np.random.default_rng(0)
    topics, alpha = rng.dirichlet(np.full(20 * K, 0.05), size=K), np.full(K, 2.0 / K)
    shares = rng.dirichlet(alpha, size=(n_documents // block, block))
    return sparse.vstack([sparse.csr_array(rng.multinomial(80, part @ topics)) for part in shares], format="csr")


def kernels(args):
    """Nanoseconds a token of a step at the same number of topics."""
    for name in args.data_sets:
        X = many_documents() if name == MANY else halves(name, args)[0]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            unknown, given = TopicProcessGibbs(), TopicGibbs(learn_every=1)
            n_topics = 200 if name == MANY else None
            chain = unknown.init(HierarchicalProcess(Multinomial(0.05)), X, seed=args.seed, n_clusters=n_topics)
            times = [median_step(unknown, chain, args.sweeps)]
            model = AdmixtureModel(Multinomial(0.05), chain.n_clusters)
            other = given.init(model, X, seed=args.seed, start="variational")
            times.append(median_step(given, other, args.sweeps))
        T = chain.tokens.n_tokens
        times.append(median_step(TopicProcessSplitMerge(), chain, args.sweeps))
        times += steps_of_documents(X, chain, args)
        names = ["unknown", "given", "splits and merges", "documents", "documents, 2 threads: wall"]
        ns = dict(zip((f"{name}, ns a token" for name in names), (1e9 * t / T for t in times)))
        yield {"data": name, "tokens": T, "topics": chain.n_clusters} | ns


def steps_of_documents(X, chain, args):
    """Median CPU seconds of a step on one thread, and wall seconds on two, from the topics of a chain."""
    topics = np.unique(chain.labels, return_inverse=True)[1]
    model = FiniteProcess(chain.model.family, default_n_places(topics.max() + 1), 0.01)
    for n_threads, clock in ((1, process_time), (2, perf_counter)):
        kernel = DocumentGibbs(learn_eta=True, learn_every=1, n_threads=n_threads)
        state = kernel.init(model, X, seed=args.seed, start=topics)
        yield median_step(kernel, state, args.sweeps, clock)


def median_step(kernel, state, n_sweeps, clock=process_time):
    """Median seconds of the later half of some steps, CPU time by default."""
    return np.median([step_seconds(kernel, state, clock) for _ in range(n_sweeps)][n_sweeps // 2 :])


def step_seconds(kernel, state, clock):
    """Seconds of a step."""
    begin = clock()
    kernel.step(state)
    return clock() - begin


PROTOCOLS = {"quality": quality, "generated": generated, "groups": groups, "kernels": kernels}
QUICK = {"quality": [50, 200], "generated": [5, 20], "groups": [5, 20]}
SEEDS = {"quality": (1, 5)}  # with --quick, and without: another seed moves a score by .05; others have 2 and 10


def parser():
    """Options."""
    command = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    command.add_argument("protocol", choices=[*PROTOCOLS])
    command.add_argument("--data", metavar="DIR", type=Path, help="folder that holds text/*.npz")
    command.add_argument("--data-sets", nargs="+", default=["bbc_news", "searchsnippets", "stackoverflow"])
    command.add_argument("--topics", nargs="+", type=int, help="numbers of topics or clusters, given or true")
    command.add_argument("--rivals", nargs="*", choices=[*RIVALS], default=[*RIVALS])
    command.add_argument("--documents", type=int, default=1000)
    command.add_argument("--sweeps", type=int, default=40)
    command.add_argument("--seeds", type=int, help="seeds of quality, corpora of each number of topics")
    command.add_argument("--seed", type=int, default=0)
    command.add_argument("--quick", action="store_true", help="fewer numbers, seeds and rivals")
    return command


def main():
    """Run one protocol."""
    command = parser()
    args = command.parse_args()
    if args.protocol in ("quality", "kernels") and args.data is None and args.data_sets != [MANY]:
        command.error(f"{args.protocol} reads real texts: add --data DIR, a folder that holds text/*.npz")
    if args.topics is None:
        full = [5, 10, 20, 50, 100, 200, 400, 800] if args.protocol == "quality" else [5, 20, 50]
        args.topics = QUICK.get(args.protocol, full) if args.quick else full
    few, many = SEEDS.get(args.protocol, (2, 10))
    if args.quick:
        args.seeds = few if args.seeds is None else min(args.seeds, few)
        args.rivals = [name for name in args.rivals if name != "tomotopy, initial_k=100"]
    args.seeds = many if args.seeds is None else args.seeds
    missing = sorted({name.partition(",")[0] for name in args.rivals if find_spec(name.partition(",")[0]) is None})
    if args.protocol == "quality" and missing:
        command.error(
            f"{' and '.join(missing)} not installed: write python -m pip install {' '.join(missing)}, or add --rivals"
            " with the names of those to run, or alone for none"
        )
    rows = print_growing(PROTOCOLS[args.protocol](args), first=23 if args.protocol == "quality" else 14)
    sys.exit(int(has_missed(args.protocol, rows)))


def has_missed(protocol, rows):
    """Whether rows miss a goal; those of quality are shown."""
    if protocol == "generated":
        return any(abs(row["large"] - row["true"]) > 1 for row in rows)
    if protocol != "quality":
        return False
    names = dict.fromkeys(row["data"] for row in rows)
    goals = [goal for name in names for goal in goals_of_quality([row for row in rows if row["data"] == name])]
    print_table(goals)
    return any(goal["reached"] == "NO" for goal in goals)


if __name__ == "__main__":
    main()

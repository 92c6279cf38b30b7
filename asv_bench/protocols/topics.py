"""Topic models beside their rivals: run by hand, `python asv_bench/protocols/topics.py --help`.

Protocols: held-out score against CPU seconds, beside tomotopy and MALLET (collapsed Gibbs), gensim and scikit-learn
(variational);
and what a pass of each way of the local step costs, with a sweep of the Gibbs sampler.

One scorer for all methods, `expfam.evaluation.held_out.document_completion`: a fifth of the word types of each held-out
document is left out, weights come from the rest at the method's own topics and alpha. "score" works the weights out by
collapsed responsibilities, "VB score", where a method ends, by the bound over all topics. All begin with eta
0.01 and alpha 0.1, or 20 / K where that is less; tomotopy and gensim learn alpha as they do by default, ours in
"active, learned" and in "gibbs", which begins, as `TopicModel` does, from topics drawn after two variational passes, of
a large corpus over a quarter; their seconds are counted. "gibbs" and "tomotopy, mean" average the counts of every
fourth sweep of the second half of those made, the others have their last ones. One thread each; CPU seconds are those
of the process, without exports and scores; a method ends where twice what it took would be more than --seconds, for
each data set and number of topics. "unigram" is one law of words for all documents. MALLET learns the pseudo-count of
words too, as do fits of `TopicModel` by default, "fit", and "gibbs, eta learned"; "fit, eta held" does not. Each number
of sweeps of a fit is a fit of its own, with the seconds of all that it does beside them. A table says which score each
method has at --times.

Real data are not shipped: DIR holds text/*.npz. "generated" is a corpus of --rows documents of 80 words in the mean,
long and short as news are, of 200 topics over 15,000 words, made here in some 20 seconds: the true topics score half a
nat a token above "unigram", which is what topics of news gain. In "faint" they are so alike
that the truth gains .19 and any method needs hundreds of passes to be above "unigram" at all. scikit-learn needs a
minute a pass for either and is left out there unless --methods names it.
"""

import argparse
import warnings
from pathlib import Path
from time import process_time

import numpy as np
from figures import draw_topic_scores
from generated import data as generated
from real_data import load
from reports import print_table, report

from expfam import AdmixtureModel, Dataset, Multinomial, TopicModel
from expfam.evaluation.held_out import document_completion
from expfam.samplers import Stochastic, TopicGibbs, TopicVariational

ALPHA, MOST_ALPHA, ETA = 0.1, 20.0, 0.01  # of a topic, of all together, of a word
SWEEPS = [2, 6, 12, 25, 50, 100, 200, 400]  # where a sampler is judged
PASSES = [1, 2, 4, 8, 16, 32]
MASSES = {"generated": 30, "faint": 300}  # how alike the topics of a corpus are
FITS = [(5, 0), (10, 5), (20, 10), (40, 20), (50, 50), (100, 100), (200, 100)]  # sweeps that count, and before them
TIMES = [0.3, 0.6, 1.1, 2.5, 4.0]
KEEP_EVERY = 4


# ---- data ------------------------------------------------------------------------------------------------------------


def documents(name, args):
    """Training and held-out documents: a fifth of them, 2000 at most."""
    if name in MASSES:
        X = generated.admixtures(args.rows, 200, n_words=15_000, mean_length=80, length_shape=2.0, mass=MASSES[name])[0]
    else:
        X = load(args.data, name)[0].astype(np.float64)
    order = np.random.default_rng(0).permutation(X.shape[0])
    held = min(X.shape[0] // 5, 2000)
    return X[np.sort(order[held:])], X[np.sort(order[:held])]


def tokens_of(X, d):
    """Words of a document, one for each token, as text."""
    part = slice(X.indptr[d], X.indptr[d + 1])
    return [str(w) for w in np.repeat(X.indices[part], X.data[part].astype(np.int64))]


def alpha_of(K):
    """Pseudo-count of a topic that all methods begin with."""
    return min(ALPHA, MOST_ALPHA / K)


# ---- methods: each yields (steps, CPU seconds, pseudo-counts (K, V), alpha) ------------------------------------------


def run_unigram(X, K, args):
    """No topics: the law of words in all documents."""
    begin = process_time()
    counts = np.asarray(X.sum(axis=0)).ravel() + ETA
    yield 0, process_time() - begin, np.tile(counts, (2, 1)), np.ones(2)


def run_gibbs(X, K, args, *, mean=True, learn_eta=False):
    """Our sampler."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # empty documents
        begin = process_time()
        model = AdmixtureModel(Multinomial(ETA), K, alpha_of(K))
        kernel, done = TopicGibbs(learn_eta=learn_eta), 0
        state = kernel.init(model, X, seed=args.seed, start="variational")
    spent = process_time() - begin
    for n_sweeps in SWEEPS:
        begin = process_time()
        counts, alpha, eta, n_kept = np.zeros((X.shape[1], K)), 0.0, 0.0, 0
        while done < n_sweeps:
            kernel.step(state)
            done += 1
            if (mean and done % KEEP_EVERY == 0) or done == n_sweeps:
                state.tokens.add_word_topics(counts)
                alpha, eta, n_kept = alpha + state.model.pseudocounts, eta + state.eta, n_kept + 1
        spent += process_time() - begin
        yield done, spent, (counts.T + eta) / n_kept, alpha / n_kept


def run_fit(X, K, args, **settings):
    """Fits of the estimator with more and more sweeps."""
    for n_steps, n_warmup in FITS:
        begin = process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sizes = {"n_steps": n_steps, "n_warmup": n_warmup, "n_threads": 1, "random_state": args.seed}
            model = TopicModel(K, **sizes, **settings).fit(X)
        yield n_steps + n_warmup, process_time() - begin, model.components_, model.alpha_


def run_gibbs_last(X, K, args):
    """Our sampler without averaging."""
    return run_gibbs(X, K, args, mean=False)


def run_variational(X, K, args, **settings):
    """One of our variational ways."""
    kernel = TopicVariational(bound_tol=0.0, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        begin = process_time()
        data = Dataset(X, Multinomial(ETA))
        state = kernel.init(AdmixtureModel(data.family, K, alpha_of(K)), data, seed=args.seed)
    spent, done = process_time() - begin, 0
    for n_passes in PASSES:
        begin = process_time()
        while done < n_passes:
            kernel.step(state)
            done += 1
        spent += process_time() - begin
        yield done, spent, state.word_counts.T + state.eta, state.model.pseudocounts


def run_tomotopy(X, K, args, *, mean=False):
    """tomotopy's collapsed Gibbs sampler, which learns alpha every ten sweeps."""
    import tomotopy

    begin = process_time()
    model = tomotopy.LDAModel(k=K, alpha=alpha_of(K), eta=ETA, seed=args.seed + 1)
    for d in range(X.shape[0]):
        if X.indptr[d + 1] > X.indptr[d]:
            model.add_doc(tokens_of(X, d))
    model.train(0, workers=1)
    words = np.array([int(word) for word in model.used_vocabs])
    spent, done = process_time() - begin, 0

    def add_to(total):
        total[:, words] += [model.get_topic_word_dist(k, normalize=False) for k in range(K)]

    for n_sweeps in SWEEPS:
        counts, alpha, n_kept = np.zeros((K, X.shape[1])), 0.0, 0
        while done < n_sweeps:
            more = min(KEEP_EVERY - done % KEEP_EVERY, n_sweeps - done) if mean else n_sweeps - done
            begin = process_time()
            model.train(more, workers=1)
            spent += process_time() - begin
            done += more
            if (mean and done % KEEP_EVERY == 0) or done == n_sweeps:
                add_to(counts)
                alpha, n_kept = alpha + model.alpha, n_kept + 1
        unseen = np.ones(X.shape[1], dtype=bool)
        unseen[words] = False
        counts[:, unseen] += n_kept * ETA
        yield done, spent, counts / n_kept, np.maximum(alpha / n_kept, 1e-10)


def run_tomotopy_mean(X, K, args):
    """tomotopy, averaged as ours is."""
    return run_tomotopy(X, K, args, mean=True)


def run_gensim(X, K, args):
    """gensim's online variational inference, which learns alpha."""
    from gensim.models import LdaModel

    corpus = [
        list(zip(X.indices[a:b].tolist(), X.data[a:b].tolist())) for a, b in zip(X.indptr[:-1], X.indptr[1:]) if b > a
    ]
    names = {v: str(v) for v in range(X.shape[1])}
    begin = process_time()
    model = LdaModel(id2word=names, num_topics=K, alpha="auto", eta=ETA, random_state=args.seed)
    model.alpha = np.full(K, alpha_of(K), dtype=model.alpha.dtype)  # where it begins to learn
    spent, done = process_time() - begin, 0
    for n_passes in PASSES:
        begin = process_time()
        model.update(corpus, passes=n_passes - done)
        spent, done = spent + process_time() - begin, n_passes
        yield done, spent, model.state.get_lambda().astype(np.float64), np.asarray(model.alpha, dtype=np.float64)


def sklearn_model(X, K, args, **settings):
    """scikit-learn's estimator with our prior."""
    from sklearn.decomposition import LatentDirichletAllocation

    prior = {"doc_topic_prior": alpha_of(K), "topic_word_prior": ETA, "total_samples": X.shape[0]}
    return LatentDirichletAllocation(K, random_state=args.seed, **prior, **settings)


def run_sklearn_online(X, K, args):
    """scikit-learn in batches of 256."""
    model, spent, done = sklearn_model(X, K, args), 0.0, 0
    rng = np.random.default_rng(args.seed)
    for n_passes in PASSES:
        begin = process_time()
        while done < n_passes:
            for rows in np.array_split(rng.permutation(X.shape[0]), -(-X.shape[0] // 256)):
                model.partial_fit(X[rows])
            done += 1
        spent += process_time() - begin
        yield done, spent, model.components_, np.full(K, alpha_of(K))


def run_sklearn_batch(X, K, args):
    """scikit-learn over all documents; it cannot go on from a fit, so each number of passes is a run of its own."""
    for n_passes in PASSES[2:]:
        begin = process_time()
        model = sklearn_model(X, K, args, learning_method="batch", max_iter=n_passes).fit(X)
        yield n_passes, process_time() - begin, model.components_, np.full(K, alpha_of(K))


def run_mallet(X, K, args):
    """SparseLDA by pyrmallet, a port of MALLET, which learns both pseudo-counts; each number of sweeps is a run."""
    from pyrmallet import LatentDirichletAllocation

    names = [mallet_word(v) for v in range(X.shape[1])]
    texts = [
        " ".join(names[int(w)] for w in tokens_of(X, d)) for d in range(X.shape[0]) if X.indptr[d + 1] > X.indptr[d]
    ]
    place = {name: v for v, name in enumerate(names)}
    for n_sweeps in SWEEPS[1:]:
        begin = process_time()
        model = LatentDirichletAllocation(
            K,
            doc_topic_prior=K * alpha_of(K),
            topic_word_prior=ETA,
            max_iter=n_sweeps,
            burn_in=n_sweeps // 4,
            optimize_interval=10,
            num_samples=2,
            sample_interval=max(1, n_sweeps // 8),
            random_state=args.seed,
        ).fit(texts)
        spent = process_time() - begin
        counts = np.full((K, X.shape[1]), ETA)
        law = model.components_ / model.components_.sum(axis=1, keepdims=True)
        counts[:, [place[name] for name in model.feature_names_in_]] += law * (X.sum() / K)
        weights = model.doc_topic_distributions_.mean(axis=0)
        yield n_sweeps, spent, counts, K * alpha_of(K) * weights / weights.sum()


def mallet_word(v):
    """A word of letters alone, as its tokeniser keeps them."""
    letters = ""
    while v or not letters:
        v, letter = divmod(v, 26)
        letters += chr(97 + letter)
    return letters + "xyz"


METHODS = {
    "unigram": run_unigram,
    "gibbs": run_gibbs,
    "gibbs, last": run_gibbs_last,
    "gibbs, eta learned": lambda X, K, args: run_gibbs(X, K, args, learn_eta=True),
    "fit": run_fit,
    "fit, eta held": lambda X, K, args: run_fit(X, K, args, eta=ETA),
    "active": lambda X, K, args: run_variational(X, K, args, local="active"),
    "active, stochastic": lambda X, K, args: run_variational(
        X, K, args, local="active", schedule=Stochastic(min(1024, X.shape[0]))
    ),
    "active, learned": lambda X, K, args: run_variational(X, K, args, local="active", learn_alpha=True, learn_eta=True),
    "dense": lambda X, K, args: run_variational(X, K, args, local="dense", n_restarts=0),
    "tokens": lambda X, K, args: run_variational(X, K, args, local="tokens"),
    "tomotopy": run_tomotopy,
    "tomotopy, mean": run_tomotopy_mean,
    "gensim": run_gensim,
    "mallet": run_mallet,
    "scikit-learn online": run_sklearn_online,
    "scikit-learn batch": run_sklearn_batch,
}
ASKED_FOR = ["gibbs, eta learned", "fit", "fit, eta held", "active, learned", "dense", "tokens", "mallet"]
DEFAULT = [name for name in METHODS if name not in [*ASKED_FOR, "scikit-learn batch"]]


# ---- protocols -------------------------------------------------------------------------------------------------------


def quality(args):
    """Held-out score against CPU seconds of each method, up to --seconds of each."""
    rows = []
    for name in args.data_sets:
        X, held = documents(name, args)
        for K in args.topics:
            methods = args.methods or [m for m in DEFAULT if name not in MASSES or not m.startswith("scikit-learn")]
            here = []
            for method in methods:
                try:
                    here += curve(method, X, held, name, K, args)
                except ImportError as error:  # pyrmallet is in no extra
                    print(f"{method} is left out: {error.name} is not installed")
            print_table(blanked(here))
            print_table(reached(here))
            print_table(at_times(here, args.times))
            rows += here
            if args.figure:
                draw_topic_scores(rows, args.figure)
    return {"rows": rows}


def curve(method, X, held, name, K, args):
    """Points of one method."""
    rows = []
    for steps, spent, components, alpha in METHODS[method](X, K, args):
        # twice as many steps come next; the dense rule is asked for where a method ends
        is_last = 2 * spent > args.seconds
        score = document_completion(components, alpha, held, n_threads=-1)[0]
        variational = None
        if is_last:
            variational = document_completion(components, alpha, held, rule="variational", n_threads=-1)[0]
        rows.append(
            {
                "method": method,
                "data": name,
                "K": K,
                "steps": steps,
                "CPU s": spent,
                "score": score,
                "VB score": variational,
                "sum alpha": float(np.sum(alpha)),
            }
        )
        if is_last:
            break
    return rows


def blanked(rows):
    """Rows for a table, with empty cells where a value was not asked for."""
    return [{key: "" if value is None else value for key, value in row.items()} for row in rows]


def reached(rows):
    """CPU seconds in which each method comes to the best score of tomotopy as it stands, and its own best score."""
    aims = {row["method"]: max(r["score"] for r in rows if r["method"] == row["method"]) for row in rows}
    aim = aims.get("tomotopy", max(aims.values()))
    first = {}
    for row in rows:
        if row["score"] >= aim:
            first.setdefault(row["method"], row["CPU s"])
    rival = first.get("tomotopy")  # the rows of a method stand in the order of their seconds
    return [
        {
            "method": method,
            "best score": best,
            "CPU s to tomotopy's best": first.get(method),
            "times as fast": rival / first[method] if rival and method in first else None,
        }
        for method, best in aims.items()
    ]


def at_times(rows, times):
    """Score of the last point that each method has before so many CPU seconds."""
    found = {}
    for row in rows:
        of_method = found.setdefault(row["method"], {"method": row["method"]} | {f"{limit:g} s": "" for limit in times})
        of_method.update({f"{limit:g} s": row["score"] for limit in times if row["CPU s"] <= limit})
    return list(found.values())


def passes(args):
    """A pass of each way of the local step from the same topics, and a sweep of Gibbs sampling."""
    rows = []
    for name in args.data_sets:
        X, _ = documents(name, args)
        for K in args.topics:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                data = Dataset(X, Multinomial(ETA))
                counts = warm_counts(data, K, args)
                found = [pass_of(way, data, K, counts, name, args) for way in args.ways]
            dense = next((row["CPU s"] for row in found if row["way"] == "dense"), None)
            found = [row | {"x dense": dense / row["CPU s"] if dense else None} for row in found]
            print_table(blanked(found))
            rows += found
    return {"rows": rows}


WAYS = {
    "dense": {"local": "dense", "n_restarts": 0},
    "active": {"local": "active", "n_restarts": 0},
    "active, L=8": {"local": "active", "n_restarts": 0, "n_active": 8},
    "tokens, L=8": {"local": "tokens", "n_restarts": 0, "n_active": 8},
    "active, restarts": {"local": "active"},
    "gibbs": None,
}


def warm_counts(data, K, args):
    """Words in topics after --warmup passes over active topics, from which all ways begin."""
    kernel = TopicVariational(bound_tol=0.0, local="active", n_restarts=0)
    state = kernel.init(AdmixtureModel(data.family, K, 0.05), data, seed=args.seed)
    for _ in range(args.warmup):
        kernel.step(state)
    return state.word_counts


def pass_of(way, data, K, counts, name, args):
    """Least CPU seconds of the passes that --seconds allow, at least one and --repeats at most, and what was reached.

    All but the first of several begin where the one before ended, as they do in a run.
    """
    settings, start = WAYS[way], counts.copy()
    kernel = TopicGibbs() if settings is None else TopicVariational(bound_tol=0.0, **settings)
    if settings is None:
        start = "variational"
    state = kernel.init(AdmixtureModel(data.family, K, 0.05), data, seed=args.seed, start=start)
    least, spent, n = np.inf, 0.0, 0
    while n < args.repeats and (n == 0 or spent + spent / n <= args.seconds):
        begin = process_time()
        info = kernel.step(state)
        took = process_time() - begin
        least, spent, n = min(least, took), spent + took, n + 1
    X = data.X
    return {
        "way": way,
        "data": name,
        "K": K,
        "passes": n,
        "CPU s": least,
        "us/document": 1e6 * least / X.shape[0],
        "ns/token": 1e9 * least / float(X.sum()),
        "active topics": float(info.extra["active"]) if "active" in info.extra else None,
        "bound/token": float(info.objective / X.sum()),
    }


def parser():
    """Sub-commands and their options."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--data", type=Path, default=Path("data"), help="directory with text/")
    common.add_argument("--data-sets", nargs="+", default=["searchsnippets", "bbc_news"], help="or generated, faint")
    common.add_argument("--topics", type=int, nargs="+", default=[50, 200])
    common.add_argument("--rows", type=int, default=100_000, help="of a generated corpus")
    common.add_argument("--seed", type=int, default=0)
    common.add_argument("--json", type=Path, metavar="PATH", help="write the results there too")
    top = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = top.add_subparsers(dest="protocol", required=True)
    command = commands.add_parser("quality", parents=[common], help=quality.__doc__)
    command.set_defaults(run=quality)
    command.add_argument("--methods", nargs="+", choices=list(METHODS), help="all but the slow ones if not given")
    command.add_argument("--seconds", type=float, default=10.0, help="CPU seconds of a method")
    command.add_argument("--times", type=float, nargs="+", default=TIMES, help="of the table of scores at equal times")
    command.add_argument("--figure", type=Path, metavar="PATH", help="draw the results there")
    command = commands.add_parser("passes", parents=[common], help=passes.__doc__)
    command.set_defaults(run=passes)
    command.add_argument("--warmup", type=int, default=3)
    command.add_argument("--repeats", type=int, default=3)
    command.add_argument("--seconds", type=float, default=12.0, help="CPU seconds of a way, its first pass aside")
    command.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS))
    return top


def main():
    """Run one of the protocols."""
    report(parser().parse_args())


if __name__ == "__main__":
    main()

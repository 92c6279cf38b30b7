"""Sparse posteriors: time of the steps, distance from dense responsibilities, held-out score, and topics."""

import warnings
from time import process_time
from types import SimpleNamespace

import numpy as np
import topics
import variational
from reproduce_row import Row, compared, panel
from scipy.stats import entropy

from expfam import AdmixtureModel, Dataset, Multinomial
from expfam.samplers import Full, TopicVariational

KEPT = (1, 2, 4, 8, 16, None)
STEPS = {"weights": "weights", "select": "responsibilities", "summary": "summary"}
DISTANCES = (0.0, 0.001, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)


def arguments(*words):
    """Options of a protocol of variational.py."""
    return variational.parser().parse_args(list(words))


def sizes(run):
    """Rows, held-out rows and the stride of patches."""
    rows = run.size(5000, 50_000)
    return ["--rows", str(rows), "--held", str(run.size(1000, 5000)), "--stride", str(run.size(4, 1))]


def figure1_steps(run):
    """Microseconds of weights, responsibilities and summary of a pass, by the number of responsibilities."""
    K = run.size(50, 200)
    args = arguments("passes", *sizes(run), "--clusters", str(K), "--repeats", "2", "--settle", "1")
    X, _ = variational.patches(args)
    starts, found = variational.Starts(X, args), {}
    for L in KEPT:
        kernel, state = starts.begin(K, starts.settled(K), n_active=L, schedule=Full(), dtype=args.dtype)
        kernel.step(state)
        passes = [variational.least_pass(kernel, state, args) for _ in range(4)]
        # parts are by the wall clock, and the machine may be busy: their shares of a pass are of its CPU time
        times = [
            {key: each[key] * each["CPU"] / each["wall"] for key in STEPS} | {"CPU": each["CPU"]} for each in passes
        ]
        found[L] = {key: min(each[key] for each in times) for key in times[0]}
    dense = found[None]
    table = [
        compared(f"{name}: dense / L = {L}, microseconds a patch", None, f"{dense[key]:.2f} / {found[L][key]:.2f}")
        for L in (1, 4, 16)
        for key, name in STEPS.items()
    ]
    gain = dense["CPU"] / found[4]["CPU"]
    share = found[4]["weights"] / sum(found[4][key] for key in STEPS)
    table.append(
        compared(
            "the whole pass with L = 4, as many times as fast as dense",
            "about 2",
            gain,
            differs=gain < 1.6,
            reason=f"the weights, which all methods need, take {share:.0%} of a sparse pass here: one "
            "product of matrices",
        )
    )
    left = found[4]["summary"] / dense["summary"]
    table.append(
        compared(
            "summary with L = 4, share of the dense one",
            f"L / K = {4 / K:.2f}, it virtually disappears",
            left,
            differs=left > 0.5,
            reason="the dense summary is one product of matrices at the speed of the processor, while "
            "sparse sums go row by row",
        )
    )
    kept = [K if L is None else L for L in KEPT]
    lines = {name: (kept, [found[L][key] for L in KEPT]) for key, name in STEPS.items()}
    return {
        "data": f"{args.rows:,} patches of 8 x 8 of the pictures of scikit-learn, without their mean; {K} clusters",
        "table": table,
        "panels": [panel("one pass", f"responsibilities kept ({K}: dense)", "microseconds a patch", lines, log="xy")],
        "says": "Microseconds are the least of eight passes; those of the parts are their shares of the wall"
        " clock times the CPU time of the pass.",
    }


def figure1_distances(run):
    """Distribution of the distance between dense and L-sparse responsibilities of patches."""
    K = run.size(50, 200)
    args = arguments("sparsity", *sizes(run), "--clusters", str(K), "--passes", str(run.size(4, 10)))
    X, _ = variational.patches(args)
    schedule = variational.schedule_of(args)
    kernel, state = variational.Starts(X, args).begin(K, n_active=8, schedule=schedule, dtype="float64")
    for _ in range(args.passes):
        kernel.step(state)
    lost = 1.0 - variational.kept_mass(state, X[:4096])
    reason = f"the largest responsibility of a patch is {1.0 - lost[:, 0].mean():.2f} in the mean: clusters overlap"
    kept = {L: lost[:, L - 1] for L in KEPT if L}
    return distances_of(kept, f"{args.rows:,} patches, {K} clusters", "patches", reason)


def distances_of(lost, data, what, reason):
    """Table and figure of distances by the number of responsibilities; `reason` of those that are far from dense."""
    table = [
        compared(
            f"L = {L}: {what} within 0.1 of dense; mean distance",
            CLAIMS.get(L),
            f"{np.mean(x <= 0.1):.0%}; {x.mean():.3f}",
            differs=L in (8, 16) and np.mean(x <= 0.1) < 0.9,
            reason=reason,
        )
        for L, x in lost.items()
    ]
    lines = {f"L = {L}": (DISTANCES, [float(np.mean(x <= at)) for at in DISTANCES]) for L, x in lost.items()}
    return {
        "data": data,
        "table": table,
        "panels": [panel("distance from dense", "variational distance", f"share of {what} (CDF)", lines)],
    }


CLAIMS = {1: "much coarser", 8: "nearly identical", 16: "nearly identical"}


def figure2(run):
    """Held-out score against time by K and L, stochastic and memoized."""
    clusters = [str(K) for K in run.size([30, 60], [100, 400])]
    table, panels = [], []
    for schedule in ("stochastic", "memoized"):
        words = [*sizes(run), "--passes", str(run.size(4, 10)), "--batches", str(run.size(4, 10))]
        args = arguments("curve", *words, "--clusters", *clusters, "--schedule", schedule)
        found = variational.curve(args)["curves"]
        for K in args.clusters:
            here = {c["L"]: c["points"] for c in found if c["K"] == K}
            lines = {name: ([p["CPU"] for p in ps], [p["held-out"] for p in ps]) for name, ps in here.items()}
            panels.append(panel(f"{schedule}, K = {K}", "CPU seconds", "held-out (nats a patch)", lines, log="x"))
            table += lines_of_figure2(schedule, K, here)
    return {
        "data": f"{args.rows:,} patches, {args.held:,} held out, zero-mean Gaussians with full covariances",
        "table": table,
        "panels": panels,
    }


def lines_of_figure2(schedule, K, here):
    """Lines of one panel: how much sooner sparse passes have the last score of dense ones, and what hard ones reach."""
    aim = here["dense"][-1]["held-out"] - 0.1
    dense = next(p["CPU"] for p in here["dense"] if p["held-out"] >= aim)
    first = {L: next((p["CPU"] for p in here[L] if p["held-out"] >= aim), None) for L in ("L=4", "L=8")}
    ratio = max((dense / t for t in first.values() if t), default=None)
    first_soft = max(here[L][0]["held-out"] for L in ("L=4", "L=8", "L=16"))
    hard, soft = here["L=1"][-1]["held-out"], max(here[L][-1]["held-out"] for L in ("L=4", "L=8", "L=16"))
    name = f"{schedule}, K = {K}"
    return [
        compared(
            f"{name}: L = 4 or 8 as many times as fast to the last score of dense",
            "2 to 3",
            ratio,
            differs=ratio is None or ratio < 1.5,
            reason=f"what L saves is exponentials and the summary; scoring all {K} clusters stays (figure "
            "1), and it is a larger share here",
        ),
        compared(
            f"{name}: last score, hard / best of L = 4 to 16, nats a patch",
            "soft often higher",
            f"{hard:.2f} / {soft:.2f}",
            differs=hard > soft,
            reason=f"after {len(here['L=1'])} passes; at the first one it was "
            f"{here['L=1'][0]['held-out']:.2f} / {first_soft:.2f}",
        ),
    ]


def topic_arguments(run):
    """Options that the functions of topics.py read."""
    return SimpleNamespace(data=run.data, rows=run.size(1500, 20_000), seed=run.seed, seconds=run.size(3.0, 20.0),
                              repeats=run.size(1, 2), warmup=run.size(2, 3))  # fmt: skip


def corpus(run, K):
    """Documents and the words in topics after some passes."""
    args = topic_arguments(run)
    X, held = topics.documents(run.size("bbc_news", "generated"), args)
    data = Dataset(X, Multinomial(topics.ETA))
    return args, data, held, topics.warm_counts(data, K, args)


def figure3_steps(run):
    """Time of a pass over documents: dense, by the number of topics of a token, and with restarts."""
    K = run.size(50, 200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        args, data, _, counts = corpus(run, K)
        ways = {f"tokens, L = {L}": {"local": "tokens", "n_active": L} for L in (1, 4, 8, 16)}
        ways = {"dense": {"local": "dense"}, "active topics": {"local": "active"}} | ways
        found = {name: one_pass(data, K, counts, args, n_restarts=0, **way) for name, way in ways.items()}
        found["active topics, restarts"] = one_pass(data, K, counts, args, local="active")
    dense = found["dense"]
    table = [
        compared(
            f"{name}: microseconds a document; as many times as fast as dense; bound, nats a token",
            PASS_CLAIMS.get(name),
            f"{us:.0f}; {dense[0] / us:.2f}; {bound:.3f}",
            differs=name in PASS_CLAIMS and dense[0] / us < 3,
            reason="our dense step of a document is two products with the rows of its words, and never forms the"
            " responsibilities of a token: to choose L topics for each token costs more than it saves. What gains"
            f" is to drop topics that the document has no use for, {dense[0] / found['active topics'][0]:.1f} times"
            " as fast as dense",
        )
        for name, (us, bound) in found.items()
    ]
    gain = found["active topics, restarts"][1] - found["active topics"][1]
    table.append(
        compared("restarts raise the bound, nats a token", "yes", gain, differs=gain < 0, reason="none was accepted")
    )
    kept = (1, 4, 8, 16)
    lines = {"tokens": (kept, [found[f"tokens, L = {L}"][0] for L in kept])}
    lines |= {name: ((1, 16), (found[name][0],) * 2) for name in ("dense", "active topics", "active topics, restarts")}
    return {
        "data": f"{data.n_rows:,} documents ({'bbc_news' if run.quick else 'generated'}), {K} topics",
        "table": table,
        "panels": [panel("a pass over documents", "topics of a token", "microseconds a document", lines, log="xy")],
    }


PASS_CLAIMS = {"tokens, L = 8": "3 times or more", "tokens, L = 16": "3 times or more"}


def one_pass(data, K, counts, args, **settings):
    """Least CPU microseconds a document of some passes from the same topics, and the bound a token."""
    kernel = TopicVariational(bound_tol=0.0, **settings)
    state = kernel.init(AdmixtureModel(data.family, K, 0.05), data, seed=args.seed, start=counts.copy())
    least = np.inf
    for place in range(args.repeats):
        begin = process_time()
        info = kernel.step(state)
        least = min(least, process_time() - begin)
        if place == 0:
            bound = float(info.objective / data.X.sum())
    return 1e6 * least / data.n_rows, bound


def figure3_distances(run):
    """Distribution of the distance between dense and L-sparse weights of topics in documents."""
    K = run.size(50, 200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        args, data, _, counts = corpus(run, K)
        dense = document_weights(data, K, counts, args, local="dense")
        lost = {
            L: 0.5 * np.abs(document_weights(data, K, counts, args, local="tokens", n_active=L) - dense).sum(axis=1)
            for L in (1, 2, 4, 8, 16)
        }
    live = np.exp(entropy(dense, axis=1))
    text = f"{data.n_rows:,} documents ({'bbc_news' if run.quick else 'generated'}), {K} topics"
    reason = (
        f"after {args.warmup} passes the topics of this corpus are still alike: {live.mean():.0f} of them share a"
        " document under dense responsibilities (exp of the entropy, mean),"
        f" {np.quantile(live, 0.9):.0f} and more a tenth of them"
    )
    return distances_of(lost, text, "documents", reason)


def document_weights(data, K, counts, args, **settings):
    """Shares of the topics in each document after one local step at given topics."""
    kernel = TopicVariational(bound_tol=0.0, n_restarts=0, documents="warm", **settings)
    state = kernel.init(AdmixtureModel(data.family, K, 0.05), data, seed=args.seed, start=counts.copy())
    found = state.local_step_of_rows(state.passes, np.arange(data.n_rows, dtype=np.int64)).counts
    shares = np.zeros((data.n_rows, K))
    shares[np.repeat(np.arange(data.n_rows), np.diff(found.starts)), found.topics] = found.N
    return shares / np.maximum(shares.sum(axis=1, keepdims=True), 1e-300)


def figure4(run):
    """Held-out score of topics against time, ours by L beside SparseLDA and others."""
    args, table, panels = topic_arguments(run), [], []
    names = {"active, stochastic": "ours, active topics, stochastic", "tokens": "ours, L = 8 topics of a token",
             "dense": "ours, dense", "gibbs": "ours, Gibbs", "mallet": "SparseLDA (MALLET)", "tomotopy": "tomotopy",
             "gensim": "gensim", "scikit-learn online": "scikit-learn, online"}  # fmt: skip
    missing = []
    for data_set, K in run.size([("bbc_news", 20)], [("bbc_news", 50), ("searchsnippets", 50), ("generated", 200)]):
        X, held = topics.documents(data_set, args)
        lines, best = {}, {}
        for method, name in names.items():
            if data_set == "generated" and method in ("scikit-learn online", "dense"):
                continue  # a minute a pass and more
            try:
                points = topics.curve(method, X, held, data_set, K, args)
            except ImportError as error:
                missing.append(f"{name} ({error.name} is not installed)")
                continue
            lines[name] = ([p["CPU s"] for p in points], [p["score"] for p in points])
            best[name] = max(points, key=lambda p: p["score"])
        panels.append(panel(f"{data_set}, {K} topics", "CPU seconds", "held-out (nats a token)", lines, log="x"))
        table += lines_of_figure4(data_set, K, lines, best)
    text = ", ".join(
        name for name, _ in run.size([("bbc_news", 0)], [("bbc_news", 0), ("searchsnippets", 0), ("generated", 0)])
    )
    says = f"Left out: {', '.join(dict.fromkeys(missing))}." if missing else ""
    return {"data": f"{text}; a fifth held out, document completion; {args.seconds:g} CPU seconds a method",
            "table": table, "panels": panels, "says": says}  # fmt: skip


def lines_of_figure4(data_set, K, lines, best):
    """Best scores, and how soon ours have the best score of SparseLDA."""
    title = f"{data_set}, K = {K}"
    own = {name: point for name, point in best.items() if name.startswith("ours")}
    others = {name: point for name, point in best.items() if name not in own}
    first = max(own, key=lambda name: own[name]["score"])
    rival = max(others, key=lambda name: others[name]["score"])
    text = ", ".join(f"{name} {point['score']:.3f}" for name, point in others.items())
    found = [
        compared(
            f"{title}: best held-out score, nats a token",
            text,
            ", ".join(f"{name.removeprefix('ours, ')} {point['score']:.3f}" for name, point in own.items()),
            differs=own[first]["score"] < others[rival]["score"] - 0.002,
            reason=f"from half of its steps to the last {rival} gained {late_gain(lines[rival]):+.3f}, {first}"
            f" {late_gain(lines[first]):+.3f}",
        )
    ]
    sparse = next((name for name in best if name.startswith("SparseLDA")), None)
    if sparse:
        aim, late = best[sparse]["score"], best[sparse]["CPU s"]
        sooner = [t for name in own for t, score in zip(*lines[name]) if score >= aim]
        found.append(
            compared(
                f"{title}: ours has SparseLDA's best score sooner, times",
                "much sooner; SparseLDA does not get there in the time",
                late / min(sooner) if sooner else None,
                differs=not sooner or late < min(sooner),
                reason=f"our dense variational way ends at {own['ours, dense']['score']:.3f}, behind sampling too: it"
                " is variational inference of so few documents, not the sparsity"
                if "ours, dense" in own
                else "ours has the score later",
            )
        )
    return found


def late_gain(curve):
    """What the last doubling of the steps gained."""
    scores = curve[1]
    return scores[-1] - scores[-2] if len(scores) > 1 else 0.0


ROWS = [
    Row(
        "sparse-figure1-steps",
        "Figure 1: time of the steps, mixtures",
        "Responsibilities of 8 x 8 patches cost less with L kept ones, and the summary virtually disappears; the"
        " whole pass is twice as fast.",
        figure1_steps,
    ),
    Row(
        "sparse-figure1-distances",
        "Figure 1: distance from dense responsibilities",
        "Distribution over patches of the variational distance between dense and L-sparse responsibilities: with L"
        " = 8 nearly none is left.",
        figure1_distances,
    ),
    Row(
        "sparse-figure2",
        "Figure 2: held-out score against time",
        "Mixtures of patches by K and L, stochastic and memoized: sparse runs have a good score 2 to 3 times"
        " sooner, and hard ones end lower.",
        figure2,
    ),
    Row(
        "sparse-figure3-steps",
        "Figure 3: time of the steps, topics",
        "Time of a pass over documents by L, and of restart proposals; Wikipedia and New York Times.",
        figure3_steps,
        needs_data=True,
    ),
    Row(
        "sparse-figure3-distances",
        "Figure 3: distance from dense weights of topics",
        "Distribution over documents of the distance between dense and L-sparse weights of their topics.",
        figure3_distances,
        needs_data=True,
    ),
    Row(
        "sparse-figure4",
        "Figure 4: topic models beside others",
        "Held-out score against time on NIPS, Wikipedia and New York Times: L-sparse runs are ahead of SparseLDA"
        " (MALLET), stochastic Gibbs and LightLDA.",
        figure4,
        needs_data=True,
    ),
]

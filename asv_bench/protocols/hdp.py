"""Topics whose number is unknown, beside given numbers: run by hand, `python asv_bench/protocols/hdp.py --help`.

Protocols:

quality    held-out score of TopicModel(None) beside TopicModel(K) for several K and the eta of either kind: nats a
           left-out token, a fifth of the word types of held-out documents, weights from the rest. Also the number of
           topics, and CPU seconds.
generated  the number of large topics that are found in documents of a known number, by sweeps.
kernels    nanoseconds a token of a step, with a given and an unknown number of topics.

One thread; CPU seconds are those of the process. Real data are not shipped: DIR holds text/*.npz.
"""

import argparse
import warnings
from pathlib import Path
from time import process_time

import numpy as np
from real_data import load
from reports import print_growing

from expfam import AdmixtureModel, HierarchicalProcess, Multinomial, TopicModel
from expfam.samplers import TopicGibbs, TopicProcessGibbs
from expfam.samplers.nonparametric.slots import count_large

_HELD = 500  # documents, at most a fifth


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
    """Score, number and seconds of each model."""
    for name in args.data_sets:
        X, held = halves(name, args)
        models = {f"K={K}, eta {eta}": TopicModel(K, eta=eta) for K in args.topics for eta in (0.01, "auto")}
        for label, model in ({"unknown": TopicModel(None)} | models).items():
            model, seconds = timed_fit(model.set_params(random_state=args.seed), X)
            yield {
                "data": name,
                "model": label,
                "score": model.score(held),
                "topics": len(model.components_),
                "large": count_large((model.components_ - model.eta_).sum(axis=1)),
                "sweeps": model.n_iter_,
                "CPU s": seconds,
            }


def documents_of(K, n_documents, seed):
    """Documents of 80 words of K topics over 20 K words, of which eta is .05."""
    rng = np.random.default_rng(seed)
    topics, alpha = rng.dirichlet(np.full(20 * K, 0.05), size=K), np.full(K, 2.0 / K)
    return np.array([rng.multinomial(80, w @ topics) for w in rng.dirichlet(alpha, size=n_documents)])


def generated(args):
    """Numbers of large and of all topics after some sweeps, for documents of known numbers of topics."""
    marks = (100, 200, 400, 600)
    for K in args.topics:
        for corpus in range(args.seeds):
            X = documents_of(K, args.documents, corpus)
            kernel = TopicProcessGibbs(learn_eta=True)
            begin, state = process_time(), kernel.init(HierarchicalProcess(Multinomial(0.01)), X, seed=args.seed)
            row = {"true topics": K, "corpus": corpus}
            for step in range(1, marks[-1] + 1):
                kernel.step(state)
                if step in marks:
                    row[f"large (all) {step}"] = f"{count_large(state.tokens.topic_size)} ({state.n_clusters})"
            yield row | {"eta": float(state.model.family.concentration), "CPU s": process_time() - begin}


def kernels(args):
    """Nanoseconds a token of a step at the same number of topics."""
    for name in args.data_sets:
        X, _ = halves(name, args)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            unknown, given = TopicProcessGibbs(), TopicGibbs(learn_every=1)
            chain = unknown.init(HierarchicalProcess(Multinomial(0.05)), X, seed=args.seed)
            times = [median_step(unknown, chain, args.sweeps)]
            model = AdmixtureModel(Multinomial(0.05), chain.n_clusters)
            other = given.init(model, X, seed=args.seed, start="variational")
            times.append(median_step(given, other, args.sweeps))
        T = chain.tokens.n_tokens
        ns = dict(zip(["unknown, ns a token", "given, ns a token"], (1e9 * t / T for t in times)))
        yield {"data": name, "tokens": T, "topics": chain.n_clusters} | ns


def median_step(kernel, state, n_sweeps):
    """Median CPU seconds of the later half of some steps."""
    return np.median([step_seconds(kernel, state) for _ in range(n_sweeps)][n_sweeps // 2 :])


def step_seconds(kernel, state):
    """CPU seconds of a step."""
    begin = process_time()
    kernel.step(state)
    return process_time() - begin


PROTOCOLS = {"quality": quality, "generated": generated, "kernels": kernels}


def main():
    """Run one protocol."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("protocol", choices=[*PROTOCOLS])
    parser.add_argument("--data", metavar="DIR", type=Path, help="folder that holds text/*.npz")
    parser.add_argument("--data-sets", nargs="+", default=["bbc_news", "searchsnippets", "stackoverflow"])
    parser.add_argument("--topics", nargs="+", type=int, default=[5, 20, 50, 100, 200])
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--sweeps", type=int, default=40)
    parser.add_argument("--seeds", type=int, default=3, help="corpora of each number of topics")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    print_growing(PROTOCOLS[args.protocol](args), first=14)


if __name__ == "__main__":
    main()

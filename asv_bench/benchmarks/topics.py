"""Topic models: a sweep of the Gibbs sampler, a pass of each way of the local step, and weights of new documents."""

import warnings

from expfam import AdmixtureModel, Dataset, Multinomial, TopicModel
from expfam.evaluation.held_out import document_completion
from expfam.samplers import TopicGibbs, TopicVariational
from expfam.samplers.topics.new_documents import document_weights

from . import data

N_ROWS = 3000
N_WORDS = 4000


def problem(X, K):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # empty documents
        documents = Dataset(X, Multinomial(0.01))
    return AdmixtureModel(documents.family, K, 0.1), documents


class Sweep:
    """One sweep of the Gibbs sampler after ten."""

    params = ([50, 200, 1000], [10, 100])
    param_names = ("topics", "mean_length")
    timeout = 300

    def setup_cache(self):
        return {
            length: data.admixtures(N_ROWS, 50, n_words=N_WORDS, mean_length=length)[0] for length in self.params[1]
        }

    def setup(self, cache, K, length):
        self.kernel, self.X = TopicGibbs(), cache[length]
        self.state = self.kernel.init(*problem(self.X, K), seed=0)
        for _ in range(10):
            self.kernel.step(self.state)

    def time_sweep(self, cache, K, length):
        self.kernel.step(self.state)

    def track_token(self, cache, K, length):
        return min(self.kernel.step(self.state).seconds for _ in range(5)) * 1e9 / self.state.tokens.n_tokens

    track_token.unit = "ns per token"


class Pass:
    """One variational pass after three."""

    params = ([50, 200, 1000], ["dense", "active", "tokens"])
    param_names = ("topics", "local")
    timeout = 300

    def setup_cache(self):
        return data.admixtures(N_ROWS, 50, n_words=N_WORDS, mean_length=60)[0]

    def setup(self, X, K, local):
        self.kernel = TopicVariational(local=local, n_restarts=0, bound_tol=0.0)
        self.state = self.kernel.init(*problem(X, K), seed=0)
        for _ in range(3):
            self.kernel.step(self.state)

    def time_pass(self, X, K, local):
        self.kernel.step(self.state)

    def track_active(self, X, K, local):
        return self.kernel.step(self.state).extra["active"]

    track_active.unit = "topics per document"


class Held:
    """Weights and score of documents under the true topics."""

    params = ("collapsed", "variational")
    param_names = ("rule",)

    def setup_cache(self):
        return data.admixtures(N_ROWS, 100, n_words=N_WORDS, mean_length=60)

    def time_weights(self, cache, rule):
        document_weights(cache[1] + 1e-6, 0.05, cache[0], rule=rule)

    def track_score(self, cache, rule):
        return document_completion(cache[1] + 1e-6, 0.05, cache[0], rule=rule)[0]

    track_score.unit = "nats per left-out token"


class Fit:
    """Ten steps on three thousand documents, by each method."""

    params = ("gibbs", "active")
    param_names = ("local",)
    timeout = 300

    def setup_cache(self):
        return data.admixtures(N_ROWS, 50, n_words=N_WORDS, mean_length=60)[0]

    def fit(self, X, local):
        sampler = local if local == "gibbs" else TopicVariational(local=local)
        n_warmup = 5 if local == "gibbs" else 0
        return TopicModel(50, sampler=sampler, n_steps=5, n_warmup=n_warmup, random_state=0).fit(X)

    def time_fit(self, X, local):
        self.fit(X, local)

    def peakmem_fit(self, X, local):
        self.fit(X, local)

    def track_log_joint(self, X, local):
        return self.fit(X, local).log_joint_ / X.sum()

    track_log_joint.unit = "nats per token, log joint or bound"

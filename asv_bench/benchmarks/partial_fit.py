"""Further learning from chunks of data that are not kept."""

from expfam import Mixture, TopicModel
from expfam.samplers import Memoized, TopicVariational

from . import data

N_ROWS = 5000


class Chunks:
    """A fitted model that learns a chunk of five hundred rows more."""

    params = ["mixture", "topics"]  # noqa: RUF012
    param_names = ("model",)
    timeout = 300

    def setup(self, model):
        if model == "mixture":
            X = data.gaussians(N_ROWS, 50)[0]
            settings = {"sampler": "variational", "n_steps": 1, "n_warmup": 0, "learn_hyper": False}
            self.model = Mixture("gaussian_diag", 50, random_state=0, **settings)
        else:
            X = data.admixtures(N_ROWS, 50, n_words=4000)[0]
            self.model = TopicModel(
                50, sampler=TopicVariational(local="active", schedule=Memoized()), n_steps=1, random_state=0
            )
        self.chunks = [X[start : start + 500] for start in range(0, N_ROWS, 500)]
        self.model.partial_fit(self.chunks[0])

    def time_partial_fit(self, model):
        self.model.partial_fit(self.chunks[1])

    def time_fit_chunks(self, model):
        self.model.fit_chunks(self.chunks)

    def peakmem_fit_chunks(self, model):
        self.model.fit_chunks(self.chunks)

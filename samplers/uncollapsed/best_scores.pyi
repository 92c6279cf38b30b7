from expfam.samplers.uncollapsed.dense import DenseScores

class BestScores:
    def __init__(self, scores: DenseScores) -> None: ...

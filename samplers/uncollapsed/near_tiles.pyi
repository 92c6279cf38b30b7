from typing import Any

from expfam.structures.rows.near_scores import NearScores

def near_scores(scores: Any, state: Any) -> NearScores | None: ...

class NearTile:
    def __init__(self, scores: Any, near: NearScores) -> None: ...

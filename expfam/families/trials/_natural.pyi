from typing import Any

from expfam.families.natural import NaturalLaw

class BetaLaw(NaturalLaw):
    def __init__(self, family: Any, r: float | None) -> None: ...

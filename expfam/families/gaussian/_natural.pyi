from typing import Any, Literal

from expfam.families.natural import NaturalLaw

class GaussianLaw(NaturalLaw):
    def __init__(
        self, family: Any, kind: Literal["diagonal", "open", "radial", "spherical", "full", "zero_mean"]
    ) -> None: ...

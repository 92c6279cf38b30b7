from typing import Any

from expfam.families.gaussian.storage import RealComponents

class GaussianComponents(RealComponents):
    def __init__(self, family: Any, data: Any, capacity: int) -> None: ...
    def take_prior(self) -> None: ...

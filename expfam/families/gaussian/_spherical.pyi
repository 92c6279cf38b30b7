from typing import Any

class SphericalComponents:
    def __init__(self, family: Any, data: Any, capacity: int) -> None: ...

class KnownComponents(SphericalComponents):
    def set_prior(self) -> None: ...

class OwnComponents(SphericalComponents):
    growth: Any
    def set_prior(self) -> None: ...

from typing import Any

class BetaComponents:
    def __init__(self, family: Any, data: Any, capacity: int, *, r: float | None = None, layout: str = ...) -> None: ...

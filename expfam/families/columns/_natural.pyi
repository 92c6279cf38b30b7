from typing import Any

from expfam.families.natural import NaturalLaw

class ColumnsLaw(NaturalLaw):
    def __init__(self, family: Any) -> None: ...

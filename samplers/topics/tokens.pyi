from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

_Floats = NDArray[np.float64]
_Numbers = NDArray[np.int32]
_Places = NDArray[np.int64]

class TokenTopics:
    word_start: _Places
    doc: _Numbers
    topic: _Numbers
    list_start: _Places
    list_size: _Numbers
    list_topic: _Numbers
    list_count: _Numbers
    topic_size: _Places
    n_topics: int
    n_words: int
    n_docs: int
    n_tokens: int
    def __init__(self, X: Any, n_topics: int, seeds: Any = None, room: int | None = None) -> None: ...
    def resize(self, n_topics: int) -> None: ...
    def renumber(self, places: _Numbers) -> None: ...
    def count_topics(self) -> None: ...
    def sweep(
        self,
        alpha: _Floats,
        eta: _Floats,
        start: int,
        stop: int,
        seed: int,
        step: int,
        histogram: _Places,
        backward: bool = False,
    ) -> int: ...
    def sweep_open(
        self,
        alpha: _Floats,
        eta: _Floats,
        first: int,
        stop: int,
        seed: int,
        step: int,
        histogram: _Places,
        rest: int,
        free: _Numbers,
        n_free: int,
        gamma: float,
    ) -> tuple[int, int, int, int]: ...
    def draws(self, alpha: _Floats, eta: _Floats, token: int, uniforms: _Floats) -> _Numbers: ...
    def list_keys(self, width: int) -> _Places: ...
    def document_topics(self) -> sparse.csr_array: ...
    def count_words(self, histogram: _Places) -> None: ...
    def word_topics(self) -> sparse.csr_array: ...
    def add_word_topics(self, total: _Floats) -> None: ...

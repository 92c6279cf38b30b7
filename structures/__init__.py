"""Data structures for numbers and clusters; none of them needs a model."""

from typing import Any

from expfam.lazy import load_name

_HOMES: dict[str, list[str]] = {
    "expfam.structures.inverted_index": ["InvertedIndex"],
    "expfam.structures.merge_queue": ["MergeQueue"],
    "expfam.structures.ward": ["WardPartners"],
    "expfam.structures.alias": ["AliasArena", "AliasTable"],
    "expfam.structures.members": ["MemberLists"],
    "expfam.structures.top_l": ["select_top"],
    "expfam.structures.hashing.sign_hash": [
        "SignCodes",
        "SignHash",
        "cosine_table",
        "hoeffding_bound",
        "kl_bound",
    ],
    "expfam.structures.hashing.lsh": ["LshTables"],
    "expfam.structures.hashing.min_hash": [
        "WeightedMinHash",
        "collision",
        "column_bounds",
        "first_dart",
        "split_probability",
    ],
    "expfam.structures.cover_tree.tree": ["CoverTree", "CoverTreeWarning"],
    "expfam.structures.data_cells": ["DataCells"],
    "expfam.structures.kmeans": ["RowTiles", "nearest_centres"],
    "expfam.structures.hashing.projection": ["sign_projection"],
}

__all__ = [name for names in _HOMES.values() for name in names]


def __getattr__(name: str) -> Any:
    return load_name(__name__, _HOMES, name)


def __dir__() -> list[str]:
    return sorted(__all__)

"""Data structures for numbers and clusters; none of them needs a model."""

from typing import Any

from expfam.lazy import load_name

_HOMES: dict[str, list[str]] = {
    "expfam.structures.selection.inverted_index": ["InvertedIndex"],
    "expfam.structures.merging.queue": ["MergeQueue"],
    "expfam.structures.merging.ward": ["WardPartners"],
    "expfam.structures.selection.alias": ["AliasArena", "AliasTable"],
    "expfam.structures.partitions.members": ["MemberLists"],
    "expfam.structures.selection.top_l": ["select_top"],
    "expfam.structures.hashing.sign_hash": ["SignHash"],
    "expfam.structures.hashing.sign_codes": ["SignCodes"],
    "expfam.structures.hashing.angle_bounds": ["cosine_table", "hoeffding_bound", "kl_bound"],
    "expfam.structures.hashing.lsh": ["LshTables"],
    "expfam.structures.hashing.min_hash": [
        "WeightedMinHash",
        "collision",
        "column_bounds",
        "first_dart",
        "split_probability",
    ],
    "expfam.structures.cover_tree.tree": ["CoverTree", "CoverTreeWarning"],
    "expfam.structures.rows.data_cells": ["DataCells"],
    "expfam.structures.rows.kmeans": ["RowTiles", "nearest_centres"],
    "expfam.structures.hashing.projection": ["sign_projection"],
}

__all__ = [name for names in _HOMES.values() for name in names]


def __getattr__(name: str) -> Any:
    return load_name(__name__, _HOMES, name)


def __dir__() -> list[str]:
    return sorted(__all__)

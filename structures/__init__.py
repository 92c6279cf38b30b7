"""Data structures that know numbers, not models; each is useful on its own."""

from importlib import import_module

_HOMES: dict[str, list[str]] = {
    "expfam.structures.inverted_index": ["InvertedIndex"],
    "expfam.structures.merge_table": ["MergeTable", "WardScores"],
    "expfam.structures.merge_queue": ["MergeQueue"],
    "expfam.structures.alias": ["AliasArena", "AliasTable"],
    "expfam.structures.members": ["MemberLists"],
    "expfam.structures.top_l": ["select_top"],
    "expfam.structures.hashing.sign_hash": [
        "SignCodes",
        "SignHash",
        "cosine_table",
        "hoeffding_bound",
        "kl_bound",
        "nearest_codes",
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
    "expfam.structures.data_cells": ["Grouping"],
    "expfam.structures.hashing.projection": ["sign_projection"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = list(_HOME_OF)


def __getattr__(name):
    if name in _HOME_OF:
        value = globals()[name] = getattr(import_module(_HOME_OF[name]), name)
        return value
    raise AttributeError(f"module 'expfam.structures' has no attribute {name!r}")


def __dir__():
    return sorted(__all__)

"""Split-merge samplers: moves, anchors, allocators."""

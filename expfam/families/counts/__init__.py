"""Families on counts and categories."""

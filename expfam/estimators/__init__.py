"""Estimators in scikit-learn's conventions."""

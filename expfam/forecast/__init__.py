"""Forecasts of memory and time before work begins."""

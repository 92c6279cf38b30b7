"""Waiting times: positive columns with exponential laws."""

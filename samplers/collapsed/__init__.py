"""Collapsed samplers: parameters integrated out, labels drawn one by one."""

"""Measure: sampling law, sweep plan, devices, journal, sessions and the profile file.

Nothing is imported here: the parts that need torch, SciPy or pyarrow are loaded by who uses them.
"""

"""Durations and shares of the command line carry their unit: 25ms, 1.5s, 2m, 5%."""

from __future__ import annotations

import math
import re

from .errors import UsageError

MS_PER = {"us": 1e-3, "ms": 1.0, "s": 1e3, "m": 6e4, "h": 3.6e6}


def milliseconds(text: str, option: str) -> float:
    """`25ms` -> 25.0. Raises UsageError naming the option: a bare number has no unit and is refused."""
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+(?:e-?[0-9]+)?)\s*([a-z]+)\s*", text)
    value = float(match[1]) * MS_PER.get(match[2], math.nan) if match else math.nan
    if not math.isfinite(value):
        raise UsageError(
            f"{option} {text!r}: expected a number with its unit ({', '.join(MS_PER)}), such as 25ms or 2m"
        )
    return value


def percentage(text: str, option: str) -> float:
    """`5%` -> 0.05. Raises UsageError naming the option: a bare number may be either."""
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*%\s*", text)
    if not match or float(match[1]) > 100:
        raise UsageError(f"{option} {text!r}: expected a percentage from 0% to 100%, such as 5%")
    return float(match[1]) / 100

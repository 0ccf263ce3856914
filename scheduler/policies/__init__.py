"""Scheduling policies: plain functions over the state, one file for each policy. `policy(text)` makes one."""

from .registry import FAMILIES, Policy, policy

__all__ = ["FAMILIES", "Policy", "policy"]

"""One source for each policy, plain functions over the state; `policy(name)` finds them."""

from .registry import FAMILIES, Policy, policy

__all__ = ["FAMILIES", "Policy", "policy"]

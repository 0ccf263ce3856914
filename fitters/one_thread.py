"""Linear algebra on one thread."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from threadpoolctl import threadpool_limits

P = ParamSpec("P")
R = TypeVar("R")


def one_blas_thread(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, while which runs BLAS has one thread; afterwards what it had.

    The matrices of a fit are small, and BLAS's threads wait for each other actively: on two cores they gain nothing,
    and beside other work (an engine that serves, a second fit) one and the same fit took 20 to 46 s, with one 3.5.
    """

    @wraps(function)
    def limited(*args: P.args, **kwargs: P.kwargs) -> R:
        with threadpool_limits(limits=1, user_api="blas"):
            return function(*args, **kwargs)

    return limited

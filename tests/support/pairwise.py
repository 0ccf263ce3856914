"""Few cases in which every two values of different factors meet."""

from itertools import combinations, product


def pairs(case):
    return set(combinations(case.items(), 2))


def pairwise(**factors):
    """Greedy: each next case is the one that covers most pairs not met yet."""
    cases = [dict(zip(factors, values, strict=True)) for values in product(*factors.values())]
    missing = set().union(*map(pairs, cases))
    chosen = []
    while missing:
        best = max(cases, key=lambda case: len(pairs(case) & missing))
        chosen.append(best)
        missing -= pairs(best)
    return chosen

"""A small study and pools that do what a test wants."""

from pathlib import Path

import chunkfit
from chunkfit.scheduler.cost.named_costs import policy_cost, true_cost
from chunkfit.scheduler.simulation.cell import Setting, cell, run_cell

TABLE = Path(chunkfit.__file__).parent / "tests" / "tables" / "golden" / "table-v1.json"
BELIEF = policy_cost("sloweave")
COSTS = {BELIEF.name: BELIEF, "sloweave:noise=3%": true_cost("same:noise=3%", "sloweave")}
SETTING = Setting("sloweave", "sloweave:noise=3%")
SMALL = "mixed:requests=40"


def cells_of(policies=("sloweave", "full"), rates=("40", "85"), seeds=2):
    return [
        cell(policy, SMALL, seed, SETTING, rate=rate) for rate in rates for policy in policies for seed in range(seeds)
    ]


class Counting:
    """Plays here and counts; after `most` cells it is interrupted."""

    def __init__(self, most=None):
        self.played, self.most = [], most

    def play(self, cells):
        for each in cells:
            if len(self.played) == self.most:
                raise KeyboardInterrupt
            self.played.append(each)
            yield each, run_cell(each, COSTS)

    def close(self):
        pass

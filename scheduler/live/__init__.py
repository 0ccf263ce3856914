"""Live runs: the simulator's state and policies over an engine that really computes, in real time."""

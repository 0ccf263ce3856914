"""Tables to decisions: requests, workloads, policies, the simulator, metrics. Works with the core dependencies alone."""

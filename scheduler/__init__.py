"""Tables to decisions: requests, workloads, policies, the simulator, metrics. It needs the core dependencies alone."""

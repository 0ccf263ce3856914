"""Workloads: synthetic laws and recorded traces, made by `registry.workload` of a text such as `mixed:rate=85`."""

"""What arrives: synthetic laws and recorded traces, each read from a text such as `mixed:rate=85,requests=950`.

`registry.workload` makes one. Nothing is imported here.
"""

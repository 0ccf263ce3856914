"""Many simulated runs: cells, pools of processes or a Ray cluster, a journal, summaries, pictures."""

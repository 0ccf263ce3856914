"""Questions answered from a table alone: static token budgets, the ridge, the tax of chunking."""

"""Public measurements, peers' methods and scores: what `public_data.py` is made of."""

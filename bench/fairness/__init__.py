"""Who is given how much of a busy model, and how soon: `python -m bench.fairness` compares orders
in which waiting messages get their places.
"""

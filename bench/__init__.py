"""The measurements: load generators and side-by-side comparisons; `python -m bench` runs them
and prints one table.
"""

"""The stores in one SQLite file, which handlers on one machine can share.

Each class names its port, and its methods do what the port's do.
"""

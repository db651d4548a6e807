"""The stores in one SQLite file, which handlers on one machine share.

Each class names its port; its methods do what the port says.
"""

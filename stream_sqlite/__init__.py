"""The stores in one SQLite file, which handlers on one machine share.

The methods of a store do what the port says that its class names.
"""

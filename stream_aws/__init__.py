"""The core's ports over services of AWS.

Each class names its port, and its methods do what the port's do.
"""

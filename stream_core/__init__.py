"""The pure core of Evenflow: no sockets, no clock of its own, no AWS.

Time is always an argument.
"""

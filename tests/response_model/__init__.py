"""Responses, their owners and their readers as a state machine: anything may come at any time,
late, twice or never.

The machine plays the rules with the real logs, cursors and stores, and knows by itself what must
come of it (`truth`). It plays them on several implementations of the stores at once, whose answers
must be the same.
"""

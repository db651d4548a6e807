"""Readers on networks that fail, at the level a reader is at: a real browser, a real page, and a
TCP path between them and the server. See `__main__.py`.
"""

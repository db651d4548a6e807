"""The attack suite: hostile readers, hostile models and hostile pages against a real server, and
honest readers beside them who must not notice.

`python -m tests.attack --help`.
"""

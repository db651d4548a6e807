"""The documentation; `python -m docs.generate` writes the pages that code knows better."""

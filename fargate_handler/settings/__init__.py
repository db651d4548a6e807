"""Settings: environment variables `EVENFLOW_…`, and the files that they name."""

"""The file of each day's usage records, in a bucket."""

"""Finds resources that an environment left in the account, to delete or adopt them."""

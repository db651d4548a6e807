"""The stores in one SQLite file, which handlers on one machine share."""

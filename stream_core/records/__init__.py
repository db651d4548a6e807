"""The lines of the operator's log that have fields: one record for each kind."""

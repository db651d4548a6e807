"""What the operator's log says: one record for each line that has fields."""

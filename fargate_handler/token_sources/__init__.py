"""Where tokens come from, behind one small port."""

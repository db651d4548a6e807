"""Values that every other folder uses: errors, limits, channels, agents, prices."""

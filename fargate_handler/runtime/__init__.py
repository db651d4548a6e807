"""What every process needs: metrics, the log, background tasks, memory."""

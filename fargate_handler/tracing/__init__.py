"""Traces by OpenTelemetry. What needs its SDK is imported only where traces are exported."""

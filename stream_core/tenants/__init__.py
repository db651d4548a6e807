"""Tenants: their records, quotas, budgets and usage."""

"""Tenants: who they are, how much they may, and what they have used."""

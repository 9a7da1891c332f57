"""Mechanisms, events and compositions, and the queries that they answer."""

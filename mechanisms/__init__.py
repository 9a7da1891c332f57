"""Mechanisms that ship with mechc: declarations only."""

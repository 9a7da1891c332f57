"""Adaptors to other libraries, imported when they are asked for."""

"""Ball arithmetic: a second derivation of every number, with enclosures."""

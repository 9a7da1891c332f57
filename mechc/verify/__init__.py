"""Verification: ball arithmetic on declarations, certificates for kernels, certified answers."""

"""What every room counts with: ulps, work, roots, machine code."""

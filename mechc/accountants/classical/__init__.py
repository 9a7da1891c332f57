"""The accountants of the literature: one method a file, with the theory of its errors."""

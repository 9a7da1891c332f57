"""Accountants: one method a file, all consuming PrivacyLoss."""

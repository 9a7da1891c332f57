"""Text, figures and reports."""

"""Figures, each beside a reference that was measured in the same run."""

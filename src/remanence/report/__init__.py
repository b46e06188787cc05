"""Figures, tables and HTML pages. Uses results only, no agents or worlds."""

"""Figures, tables and pages. Reads results only; knows no agent and no world."""

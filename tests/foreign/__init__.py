"""Model files from other tools."""

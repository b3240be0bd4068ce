"""The one Session: its state, its record on disk, and what clicks do to it."""

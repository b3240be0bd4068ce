"""The parts of each page, and the furniture they share."""

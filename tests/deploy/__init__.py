"""Candidates made with calibration images."""

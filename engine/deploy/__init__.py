"""Candidates that are made with unlabeled calibration images: integer activations, mixed precision, corrected
rounding; and what each takes on this processor.
"""

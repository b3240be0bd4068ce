"""Can the evidence, the confidences and the assumptions be trusted here? Arrays in, findings out."""

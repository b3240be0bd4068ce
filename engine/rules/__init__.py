"""The paper's rules: arrays in, a score per candidate out. Knows no model, no file and no sentence."""

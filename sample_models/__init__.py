"""Small real teachers, their training scripts, and the predictions of their families."""

"""Models over the pool, once and resumably, and the predictions file. Knows no rule and no choice.

Nothing is imported here: reading a predictions file must not load a runtime.
"""

"""Model files from any tool: found, looked into, run in their own runtime. Knows no recipe and no choice.

Nothing is imported here: a worker needs a session only.
"""

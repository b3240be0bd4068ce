"""A trained classifier from any framework becomes one graph. Knows models; nothing of candidates, images or
rules.
"""

"""The recommendation: what the target may be like, which candidate follows, how sure that is, what to label
next.
"""

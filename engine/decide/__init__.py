"""From predictions and labels to a decision: any rule by name, all rules side by side, and the tables that
explain them.
"""

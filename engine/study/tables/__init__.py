"""Tables of a finished study, the list of them, and what they say in a sentence."""

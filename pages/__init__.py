"""The pages of the app: thin windows onto the engine."""

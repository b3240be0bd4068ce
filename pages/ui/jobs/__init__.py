"""Background work: starting and watching it, and the process that does it. Knows nothing of Streamlit."""

"""A session's folder on disk and the limits of the host. Knows nothing of Streamlit."""

"""Numbers, tables and charts as people read them. Knows no session."""

"""What the pages share: the session, background jobs, charts and words."""

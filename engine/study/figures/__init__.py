"""Pictures of a finished study: tables in, charts out."""

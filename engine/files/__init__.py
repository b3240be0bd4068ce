"""Bytes on disk, safely: whole files, archives without pickles, hashes. Knows nothing of models."""

"""Files, processes and threads."""

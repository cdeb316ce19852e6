"""Tables, figures and provenance of results."""

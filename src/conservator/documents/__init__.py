"""Text and bytes in and out: what was lost in a document, what is valid UTF-8, what came of it."""

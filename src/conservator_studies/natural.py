"""Documents that mix two kinds of text by nature: where each stands, as windows and as training texts."""

from collections.abc import Sequence

Span = tuple[int, int]  # a half-open range of bytes


def streams(documents: Sequence[bytes], spans: Sequence[Sequence[Span]]) -> tuple[list[bytes], list[bytes]]:
    """What stands outside the spans of each document, and what stands inside, one text each a document.

    The pieces of a text stand as in the document, in their order, each on a new line; a piece of white space alone is
    left out, and so are the blanks at the end of a piece. Either text is empty if the document has nothing of it.
    """
    texts = [split(document, inside) for document, inside in zip(documents, spans, strict=True)]
    return [join(outside) for outside, _ in texts], [join(inside) for _, inside in texts]


def split(document: bytes, spans: Sequence[Span]) -> tuple[list[bytes], list[bytes]]:
    """The pieces of a document outside spans, and those inside."""
    edges = [0, *(place for span in spans for place in span), len(document)]
    pieces = [document[start:stop] for start, stop in zip(edges, edges[1:], strict=False)]
    return pieces[::2], pieces[1::2]


def join(pieces: Sequence[bytes]) -> bytes:
    """One text of pieces, each on a new line."""
    kept = [piece.rstrip(b" \t") for piece in pieces if piece.strip()]
    return b"".join(piece if piece.endswith(b"\n") else piece + b"\n" for piece in kept)

"""How figures look: colours that colour-blind readers tell apart, and no more ink than needed."""

import io

from matplotlib.figure import Figure

# Okabe and Ito's palette (2008).
BLUE, ORANGE, GREEN, PURPLE, GREY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#777777"


def new_figure(width: float, height: float) -> Figure:
    """Start a figure of so many inches, which lays itself out."""
    return Figure(figsize=(width, height), layout="constrained")


def render(figure: Figure, form: str) -> bytes:
    """Return the figure as ``png`` or ``pdf``, without the date in it."""
    buffer = io.BytesIO()
    dateless = {"CreationDate": None} if form == "pdf" else None
    figure.savefig(buffer, format=form, dpi=160, metadata=dateless)
    return buffer.getvalue()

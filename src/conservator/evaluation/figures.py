"""The style of all figures: colours that colour-blind readers can tell apart, and an automatic layout."""

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's palette (2008).
BLUE, ORANGE, GREEN, PURPLE, GREY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#777777"


def new_figure(width: float, height: float) -> "Figure":
    """Make a figure of ``width`` by ``height`` inches with an automatic layout."""
    from matplotlib.figure import Figure  # only where a figure is drawn: the import takes most of a second

    return Figure(figsize=(width, height), layout="constrained")


def render(figure: "Figure", form: str) -> bytes:
    """Return the figure as ``png`` or ``pdf``, without a date, so that equal figures are equal bytes."""
    buffer = io.BytesIO()
    dateless = {"CreationDate": None} if form == "pdf" else None
    figure.savefig(buffer, format=form, dpi=160, metadata=dateless)
    return buffer.getvalue()

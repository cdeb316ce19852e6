"""Style of all figures: a palette for colour-blind readers, and an automatic layout."""

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Palette of Okabe and Ito (2008).
BLUE, ORANGE, GREEN, PURPLE, GREY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#777777"


def new_figure(width: float, height: float) -> "Figure":
    """Create a figure of ``width`` by ``height`` inches with an automatic layout."""
    from matplotlib.figure import Figure  # imported lazily: the import takes most of a second

    return Figure(figsize=(width, height), layout="constrained")


def render(figure: "Figure", file_format: str) -> bytes:
    """Render a figure as ``png`` or ``pdf``, without a date, so that equal figures have equal bytes."""
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    buffer = io.BytesIO()
    metadata = {"CreationDate": None} if file_format == "pdf" else None
    figure.savefig(buffer, format=file_format, dpi=160, metadata=metadata)
    return buffer.getvalue()

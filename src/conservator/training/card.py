"""The model card of an expert, and the picture of its loss curve."""

import csv
import io
from pathlib import Path

from conservator.experts import WEIGHTS, load_expert
from conservator.figures import BLUE, GREY, new_figure, render
from conservator.files import write_atomically
from conservator.training.runs import CURVE

PICTURE, CARD = "loss.png", "README.md"


def write_card(folder: Path) -> None:
    """Write the card and the curve of the finished expert in ``folder``."""
    expert = load_expert(folder)
    about, network = expert.about, expert.network.config
    points = list(csv.DictReader(io.StringIO((folder / CURVE).read_text())))
    steps = [int(point["step"]) for point in points]
    figure = new_figure(5, 3)
    axes = figure.subplots()
    axes.plot(steps, [float(point["loss"]) for point in points], color=GREY, label="training")
    axes.plot(steps, [float(point["held_out"]) for point in points], color=BLUE, label="held out")
    axes.set(xlabel="step", ylabel="nats per masked byte", title=expert.spec.name)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    write_atomically(folder / PICTURE, render(figure, "png"))

    loss, bound = (about["held_out"][key] for key in ("nats_per_masked_byte", "bits_per_byte"))
    rows = {
        "data": f"{', '.join(about['data'])}: {about['documents']} documents, {about['bytes']:,} bytes",
        "filter": ", ".join(about["strip"]) or "none",
        "about the data": about["about"] or "not recorded",
        "parameters": f"{expert.parameters:,}; {(folder / WEIGHTS).stat().st_size / 1e6:.1f} MB in float16",
        "network": ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in vars(network).items()),
        "training": f"{about['steps']} steps of {about['batch']} windows of {about['window']} bytes, "
        f"seed {about['seed']}, {about['minutes']} minutes",
        "command": f"`{about['command']}`",
        "held-out documents": f"{loss['value']:.3f} [{loss['low']:.3f}, {loss['high']:.3f}] nats per masked byte "
        f"(times uniform); at most {bound['value']:.3f} [{bound['low']:.3f}, {bound['high']:.3f}] bits per byte",
        "fingerprint": f"`{expert.spec.fingerprint[:16]}`",
    }
    lines = [f"| {key} | {' '.join(value.replace('|', '/').split())} |" for key, value in rows.items()]
    text = f"# {expert.spec.name}\n\nA mask-source byte expert: it predicts hidden bytes from the visible ones.\n\n"
    text += "\n".join(["| | |", "|---|---|", *lines]) + f"\n\n![loss curve]({PICTURE})\n"
    write_atomically(folder / CARD, text.encode())

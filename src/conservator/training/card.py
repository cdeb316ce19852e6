"""Model card of an expert, with a plot of its loss curve."""

import csv
import io
from pathlib import Path

from conservator.errors import ConservatorError
from conservator.evaluation.figures import BLUE, GREY, new_figure, render
from conservator.experts import CONFIG, WEIGHTS, ByteExpert, Source
from conservator.experts.flow import FlowExpert
from conservator.experts.flow.adapters import ADAPTER_WEIGHTS
from conservator.experts.library import load_trained
from conservator.system.files import read_file, write_atomically
from conservator.training.runs import CURVE
from conservator.training.scoring import Estimate

PICTURE, CARD = "loss.png", "README.md"
MAX_CURVE_BYTES = 2**24  # bytes: size of a loss curve [safety limit]


def write_card(folder: Path) -> None:
    """Write the model card and the loss plot of the finished expert in ``folder``."""
    try:
        _write_card(folder)
    except ConservatorError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise ConservatorError(
            f"cannot write the model card of {folder}: {CONFIG} or {CURVE} was not written by training ({error!r})"
        ) from error


def _write_card(folder: Path) -> None:
    expert = load_trained(folder)
    about, loss_per, weights = expert.about, loss_unit(expert.spec.source), WEIGHTS
    config = expert.network.config if isinstance(expert, ByteExpert) else expert.base.network.config
    network = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in vars(config).items())
    unit, kind = "bytes", "A mask-source byte expert: it predicts hidden bytes from the visible ones."
    if isinstance(expert, FlowExpert):
        unit = "tokens"
        kind = f"A flow-matching expert with a {expert.base.network.config.source} source; it reads the time."
        if expert.adapter is not None:
            weights, kind = ADAPTER_WEIGHTS, f"{kind} An adapter of the base `{expert.base.fingerprint[:16]}`."
    points = list(csv.DictReader(io.StringIO(read_file(folder / CURVE, MAX_CURVE_BYTES).decode())))
    steps = [int(point["step"]) for point in points]
    figure = new_figure(5, 3)
    axes = figure.subplots()
    axes.plot(steps, [float(point["loss"]) for point in points], color=GREY, label="training")
    axes.plot(steps, [float(point["held_out"]) for point in points], color=BLUE, label="held out")
    axes.set(xlabel="step", ylabel=f"nats per {loss_per}", title=expert.spec.name)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    write_atomically(folder / PICTURE, render(figure, "png"))

    loss, bound = (Estimate(**about["held_out"][key]) for key in ("nats_per_masked_byte", "bits_per_byte"))
    rows = {
        "data": f"{', '.join(about['data'])}: {about['documents']} documents, {about['bytes']:,} bytes",
        "filter": ", ".join(about["strip"]) or "none",
        "about the data": about["about"] or "not recorded",
        "parameters": f"{expert.parameters:,}; {(folder / weights).stat().st_size / 1e6:.1f} MB in float16",
        "network": network,
        "training": f"{about['steps']} steps of {about['batch']} windows of {about['window']} {unit}, "
        f"seed {about['seed']}, {about['minutes']} minutes",
        "command": f"`{about['command']}`",
        "held-out documents": f"{loss} nats per {loss_per} (times uniform); at most {bound} bits per byte",
        "fingerprint": f"`{expert.spec.fingerprint[:16]}`",
    }
    lines = [f"| {key} | {' '.join(value.replace('|', '/').split())} |" for key, value in rows.items()]
    text = f"# {expert.spec.name}\n\n{kind}\n\n"
    text += "\n".join(["| | |", "|---|---|", *lines]) + f"\n\n![loss curve]({PICTURE})\n"
    write_atomically(folder / CARD, text)


def loss_unit(source: Source) -> str:
    """Return the unit that the loss of an expert is normalised by."""
    return "masked byte" if source.shows_noise else "byte"

"""What copying and scanning does to a page: blur, ink, dirt, light, skew, few pixels and JPEG, from a seed."""

import io
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy import ndimage

from conservator_studies.typeset import DPI, PAPER, to_png

Pixels = NDArray[np.float64]


@dataclass(frozen=True)
class Damage:
    """How much is done to a page; lengths in inches, so that they do not depend on the resolution.

    Attributes:
        dpi: pixels an inch of the scan.
        blur: standard deviation of the blur.
        ink: how far ink spreads or shrinks, at most.
        wear: how uneven the ink is: standard deviation of the darkness of its patches.
        speckles: an inch squared.
        light: how much darker the darkest edge of the page is, at most, from 0 to 1.
        skew: degrees, at most.
        noise: standard deviation of the noise of the sensor, from 0 to 1.
        quality: of JPEG.
    """

    dpi: int
    blur: float
    ink: float
    wear: float
    speckles: float
    light: float
    skew: float
    noise: float
    quality: int


LEVELS = {
    "light": Damage(130, 0.004, 0.001, 0.15, 2, 0.15, 0.4, 0.03, 70),
    "medium": Damage(106, 0.005, 0.0015, 0.2, 4, 0.25, 0.6, 0.04, 60),
    "heavy": Damage(97, 0.0055, 0.0015, 0.25, 8, 0.35, 0.8, 0.05, 50),
}


def degrade(image: bytes, level: str, generator: np.random.Generator) -> bytes:
    """A page after damage, as PNG.

    Args:
        image: a page of ``render``.
        level: one of LEVELS.
        generator: draws how ink, light, skew and noise turn out on this page.
    """
    damage = LEVELS[level]
    with Image.open(io.BytesIO(image)) as opened:
        turned = opened.convert("L").rotate(
            generator.uniform(-damage.skew, damage.skew), Image.Resampling.BICUBIC, fillcolor=PAPER
        )
    ink = 1 - np.asarray(turned, dtype=np.float64) / PAPER
    ink = spread_ink(ink, damage, generator)
    ink = np.maximum(ink, speckle(ink.shape, damage, generator))
    ink = ndimage.gaussian_filter(ink, damage.blur * DPI)
    shape = tuple(round(side * damage.dpi / DPI) for side in ink.shape)
    small = Image.fromarray(ink.astype(np.float32)).resize((shape[1], shape[0]), Image.Resampling.BOX)
    seen = (1 - 0.9 * np.asarray(small, dtype=np.float64)) * shade(shape, damage, generator)
    seen += generator.normal(0, damage.noise, shape)
    return compress(seen, damage)


def spread_ink(ink: Pixels, damage: Damage, generator: np.random.Generator) -> Pixels:
    """Ink that spreads or shrinks by a distance drawn for the page, and is uneven.

    The edge of blurred ink lies where it is half as dark; another threshold moves it.
    """
    reach = generator.uniform(-damage.ink, damage.ink) * DPI
    width = 1.5
    soft = ndimage.gaussian_filter(ink, width)
    moved = np.clip((soft - 0.5 + reach / (width * np.sqrt(2 * np.pi))) / 0.2 + 0.5, 0, 1)
    patches = patchwork(ink.shape, 0.02, generator)
    worn: Pixels = np.clip(moved * (1 - damage.wear * np.abs(patches)), 0, 1)
    return worn


def patchwork(shape: tuple[int, ...], size: float, generator: np.random.Generator) -> Pixels:
    """Smooth noise of standard deviation about 1, with patches of a size in inches."""
    step = max(1, round(size * DPI))
    coarse = generator.normal(0, 1, (shape[0] // step + 2, shape[1] // step + 2)).astype(np.float32)
    fine = Image.fromarray(coarse).resize((coarse.shape[1] * step, coarse.shape[0] * step), Image.Resampling.BICUBIC)
    return np.asarray(fine, dtype=np.float64)[: shape[0], : shape[1]]


def speckle(shape: tuple[int, ...], damage: Damage, generator: np.random.Generator) -> Pixels:
    """Dirt: dots of up to a hundredth of an inch."""
    dirt = np.zeros(shape)
    count = generator.poisson(damage.speckles * shape[0] * shape[1] / DPI**2)
    for row, column, radius in generator.random((count, 3)) * (*shape, 0.005 * DPI):
        top, left, reach = round(row), round(column), round(radius)
        dirt[top : top + 1 + reach, left : left + 1 + reach] = 0.8
    return dirt


def shade(shape: tuple[int, ...], damage: Damage, generator: np.random.Generator) -> Pixels:
    """Uneven light: from a bright side to a dark one, in a direction drawn for the page."""
    angle = generator.uniform(0, 2 * np.pi)
    rows, columns = np.linspace(-0.5, 0.5, shape[0])[:, None], np.linspace(-0.5, 0.5, shape[1])[None]
    across = np.clip(0.5 + np.sin(angle) * rows + np.cos(angle) * columns, 0, 1)
    shaded: Pixels = 1 - generator.uniform(0.3, 1) * damage.light * across**2
    return shaded


def compress(seen: Pixels, damage: Damage) -> bytes:
    """Pixels from 0 to 1 through JPEG, as PNG."""
    made = io.BytesIO()
    Image.fromarray((np.clip(seen, 0, 1) * PAPER).round().astype(np.uint8)).save(made, "JPEG", quality=damage.quality)
    with Image.open(made) as opened:
        return to_png(opened.convert("L"), damage.dpi)

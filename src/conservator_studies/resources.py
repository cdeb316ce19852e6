"""The inputs of the byte studies: texts, experts, and a folder for what takes long to compute."""

import hashlib
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from conservator.errors import ConservatorError
from conservator.experts import Expert, builtin_names, load_experts
from conservator_studies.corpora import find_corpora, read_domains

ROLES = (
    "prose",
    "code",
    "config",
    "markdown",
    "math",
    "generalist",
    "generalist_2x",
    "generalist_3x",
)  # the names of experts in studies


@dataclass(frozen=True)
class Resources:
    """Texts and experts.

    Attributes:
        corpora: the folder of the texts.
        experts: role -> expert.
        folder: where a study keeps what takes long to compute.
    """

    corpora: Path
    experts: Mapping[str, Expert]
    folder: Path

    @cached_property
    def evaluation(self) -> dict[str, list[bytes]]:
        """The documents of each domain to evaluate on."""
        return read_domains(self.corpora, "eval")

    @property
    def fingerprints(self) -> dict[str, str]:
        """Role -> a hash of the expert's weights."""
        return {role: expert.spec.fingerprint for role, expert in self.experts.items()}

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the texts' files."""
        digest = hashlib.sha256()
        for path in sorted(self.corpora.glob("*.jsonl*")):
            digest.update(f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()} ".encode())
        return digest.hexdigest()

    def choose(self, roles: Sequence[str]) -> list[Expert]:
        """The experts of these roles."""
        missing = [role for role in roles if role not in self.experts]
        if missing:
            raise ConservatorError(
                f"no expert for {', '.join(missing)}: none is built in, and --experts {missing[0]}=FOLDER names none"
            )
        return [self.experts[role] for role in roles]

    def generalists(self) -> list[Expert]:
        """The generalists that there are."""
        return [expert for role, expert in self.experts.items() if role.startswith("generalist")]


def open_resources(
    corpora: str | None, experts: Sequence[str], folder: Path, *, trust_remote_code: bool = False
) -> Resources:
    """Find the texts and load the experts.

    Args:
        corpora: as ``find_corpora`` takes it.
        experts: ROLE=NAME, as ``load_experts`` takes names; built-in experts fill the roles of their names. One over
            tokens speaks about its tokens.
        folder: where studies keep what takes long to compute.
        trust_remote_code: whether code in the folders of models may run.
    """
    named = {role: role for role in ROLES if role in builtin_names()}
    for value in experts:
        role, equals, name = value.partition("=")
        if role not in ROLES or not equals or not name:
            raise ConservatorError(f"--experts {value}: expected ROLE=FOLDER, with one of the roles {', '.join(ROLES)}")
        named[role] = name
    loaded = {
        role: in_role(role, load_experts([name], trust_remote_code=trust_remote_code, native_tokens=True)[0])
        for role, name in sorted(named.items())
    }
    return Resources(find_corpora(corpora, folder / "corpora"), loaded, folder)


def in_role(role: str, expert: Expert) -> Expert:
    """The expert under the name of its role."""
    found = copy(expert)
    vars(found)["spec"] = replace(expert.spec, name=role)
    return found

"""Inputs of the studies: texts, experts, and a cache folder."""

import hashlib
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from conservator.errors import ConservatorError
from conservator.experts import Expert, builtin_names, load_experts
from conservator_studies.corpora import find_corpora, read_domains

# names of experts in studies
ROLES = ("prose", "code", "config", "markdown", "math", "generalist", "generalist_2x", "generalist_3x")


@dataclass(frozen=True)
class Resources:
    """Texts and experts.

    Attributes:
        corpora: folder of the texts.
        experts: role -> expert.
        folder: cache of trained experts and other expensive results.
    """

    corpora: Path
    experts: Mapping[str, Expert]
    folder: Path

    @cached_property
    def evaluation(self) -> dict[str, list[bytes]]:
        """Evaluation documents of each domain."""
        return read_domains(self.corpora, "eval")

    @property
    def fingerprints(self) -> dict[str, str]:
        """Role -> hash of the weights of the expert."""
        return {role: expert.spec.fingerprint for role, expert in self.experts.items()}

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the corpus files."""
        digest = hashlib.sha256()
        for path in sorted(self.corpora.glob("*.jsonl*")):
            digest.update(f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()} ".encode())
        return digest.hexdigest()

    def choose(self, roles: Sequence[str]) -> list[Expert]:
        """Return the experts of the roles."""
        missing = [role for role in roles if role not in self.experts]
        if missing:
            raise ConservatorError(
                f"no expert for {', '.join(missing)}: there is no built-in expert; name one with "
                f"--experts {missing[0]}=FOLDER"
            )
        return [self.experts[role] for role in roles]

    def generalists(self) -> list[Expert]:
        """Return all generalists."""
        return [expert for role, expert in self.experts.items() if role.startswith("generalist")]


def open_resources(
    corpora: str | None, experts: Sequence[str], folder: Path, *, trust_remote_code: bool = False
) -> Resources:
    """Find the corpora and load the experts.

    Args:
        corpora: argument of ``find_corpora``.
        experts: ROLE=NAME, with names that ``load_experts`` accepts; built-in experts have the roles of their names.
            A token expert keeps its vocabulary.
        folder: cache of expensive results.
        trust_remote_code: whether code in model folders may run.
    """
    named = {role: role for role in ROLES if role in builtin_names()}
    for value in experts:
        role, equals, name = value.partition("=")
        if role not in ROLES or not equals or not name:
            raise ConservatorError(f"--experts: expected ROLE=FOLDER with a role from {', '.join(ROLES)}; got {value}")
        named[role] = name
    loaded = {
        role: with_role_name(role, load_experts([name], trust_remote_code=trust_remote_code, native_tokens=True)[0])
        for role, name in sorted(named.items())
    }
    return Resources(find_corpora(corpora, folder / "corpora"), loaded, folder)


def with_role_name(role: str, expert: Expert) -> Expert:
    """Return a copy of the expert, named after its role."""
    renamed = copy(expert)
    vars(renamed)["spec"] = replace(expert.spec, name=role)
    return renamed

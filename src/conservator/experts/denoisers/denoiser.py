"""Pretrained two-sided models as experts: log p(x_l = v | visible tokens), as each family says it is to be read."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from conservator.errors import ConservatorError
from conservator.experts.denoisers.families import Family
from conservator.experts.expert import IMPOSSIBLE, At, Context, ExpertSpec, check_context, copy_visible
from conservator.experts.language_models.precision import precision_of
from conservator.experts.team import CHUNK, POSITIONS
from conservator.vocabularies import Tokens

LEAST = 1e-3  # kappa: networks that take sigma were trained no nearer to pure noise


class Denoiser:
    """A frozen masked or diffusion model over tokens. See ``Expert``.

    With a mask source, the network's mask stands at every hidden position, and visible tokens are copied. With a
    uniform source all tokens are read, so none may be hidden, and ``context.time`` is needed; what is predicted is
    p(x_l = v | x_t), also where the token is right. Tokens that stand for no text, a mask or padding among them, are
    impossible. After the end of a row, all others are equally likely.
    """

    def __init__(
        self,
        network: nn.Module,
        family: Family,
        tokens: Tokens,
        *,
        longest: int,
        mask: int | None = None,
        start: int | None = None,
        end: int | None = None,
        name: str = "",
        fingerprint: str = "",
    ) -> None:
        """Freeze a network of a family.

        Args:
            network: called with ``input_ids`` (B, L), it returns ``logits`` (B, L, V).
            family: how it is read.
            tokens: what its V tokens stand for.
            longest: how many positions it reads at once, start and end among them.
            mask: the number of its mask, if it has one.
            start: the number of the token before every text, if its family has one.
            end: the number of the token after every text, if its family has one.
            name: its name in tables and reports.
            fingerprint: a hash of its weights.
        """
        self.network = network.eval().requires_grad_(False)
        self.family = family
        self._mask, self._uniform = mask, not family.source.shows_noise
        self._before, self._after = ([] if one is None else [one] for one in (start, end))
        if (mask is None) != self._uniform:
            raise ConservatorError(f"the expert {name!r} needs a mask if its source is one, and none otherwise")
        if family.shift > len(self._before):
            raise ConservatorError(f"the logits of {name!r} stand before their tokens; it needs a start token")
        self.spec = ExpertSpec(
            name,
            tokens,
            max_length=longest - len(self._before) - len(self._after),
            source=family.source,
            takes_time=family.time == "sigma",
            fingerprint=fingerprint,
            precision=precision_of(network),
        )
        self._silent = torch.tensor([not piece for piece in tokens.token_bytes])
        self._head = head_of(network)
        self._lock = threading.Lock()  # what the head is asked for is set for one pass at a time

    @property
    def parameters(self) -> int:
        """The number of weights."""
        return sum(weight.numel() for weight in self.network.parameters())

    @torch.no_grad()
    def predict(self, context: Context, at: At) -> Tensor:
        """Return log p(x_l = v | what is read) at the positions ``at``: (n, V), float32."""
        check_context(self.spec, context)
        tokens, real = context.tokens.long().cpu(), context.real.cpu()
        hidden, row, place = context.hidden.cpu() & real, at[0].cpu(), at[1].cpu()
        self._check(tokens, hidden, real, context.time)
        rows = self._normalised(torch.zeros(1, self.spec.vocabulary.size, dtype=torch.float32)).repeat(len(row), 1)
        wanted = real[row, place] if self._uniform else hidden[row, place]
        lengths = real.sum(-1)
        for length in lengths[row[wanted]].unique().tolist():
            asked = (wanted & (lengths[row] == length)).nonzero()[:, 0]
            for part in row[asked].unique().split(self._at_once(length)):
                mine = asked[torch.isin(row[asked], part)]
                rows[mine] = self._read(
                    tokens[part, :length],
                    hidden[part, :length],
                    None if context.time is None else context.time[part.to(context.time.device)],
                    torch.searchsorted(part, row[mine]),
                    place[mine],
                )
        if not self._uniform:
            rows = copy_visible(rows, Context(tokens, hidden | ~real), (row, place))
        return rows.to(context.tokens.device)

    def _check(self, tokens: Tensor, hidden: Tensor, real: Tensor, time: Tensor | None) -> None:
        """Raise unless the network can read this."""
        size = self.spec.vocabulary.size
        strange = real & ~hidden & ((tokens < 0) | (tokens >= size))
        if strange.any():
            raise ConservatorError(f"a visible token is {int(tokens[strange][0])}; tokens are 0 to {size - 1}")
        if self._uniform and hidden.any():
            raise ConservatorError(
                f"the expert {self.spec.name!r} has a uniform source and reads every token; none may be hidden"
            )
        if self.spec.takes_time and time is None:
            raise ConservatorError(f"the expert {self.spec.name!r} needs the time kappa of each sequence")

    def _at_once(self, length: int) -> int:
        """How many rows are read at once, so that their logits stay small even if all of them are computed."""
        return max(1, min(CHUNK // (4 * length * self.spec.vocabulary.size), POSITIONS // length))

    def _read(self, tokens: Tensor, hidden: Tensor, time: Tensor | None, row: Tensor, place: Tensor) -> Tensor:
        """Rows (n, V) of a batch (B, length) without padding."""
        device = next(self.network.parameters()).device
        if self._mask is not None:
            tokens = tokens.masked_fill(hidden, self._mask)
        ends = [torch.tensor(part, dtype=torch.long).expand(len(tokens), -1) for part in (self._before, self._after)]
        given: dict[str, Any] = {"input_ids": torch.cat([ends[0], tokens, ends[1]], dim=1).to(device)}
        if self.family.time == "zeros":
            given["timesteps"] = torch.zeros(len(tokens), device=device, dtype=torch.float32)
        elif self.family.time == "sigma" and time is not None:
            given["timesteps"] = -time.to(device, torch.float32).clamp(LEAST, 1.0).log()
        row, place = row.to(device), place.to(device) + len(self._before) - self.family.shift
        with self._lock, self._asking(row, place):
            logits = self.network(**given, return_dict=True).logits
        if logits.ndim == 3:
            logits = logits[row, place]
        if logits.shape != (len(row), self.spec.vocabulary.size):
            raise ConservatorError(
                f"the network of {self.spec.name!r} has {logits.shape[-1]} tokens, its vocabulary "
                f"{self.spec.vocabulary.size}"
            )
        return self._normalised(logits.float()).cpu()

    @contextmanager
    def _asking(self, row: Tensor, place: Tensor) -> Iterator[None]:
        """Give the last layer of the network only some positions of a batch, if it is known which layer that is."""

        def pick(module: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...] | None:
            return (given[0][row, place],) if given and given[0].ndim == 3 else None

        if self._head is None:
            yield
            return
        hook = self._head.register_forward_pre_hook(pick)
        try:
            yield
        finally:
            hook.remove()

    def _normalised(self, logits: Tensor) -> Tensor:
        """Log-probabilities of the tokens that stand for text; the others are impossible. Logits are overwritten."""
        silent = self._silent.to(logits.device)
        return torch.log_softmax(logits.masked_fill_(silent, -torch.inf), dim=-1).masked_fill_(silent, IMPOSSIBLE)


def head_of(network: nn.Module) -> nn.Linear | None:
    """The last layer of a network, which makes V logits of a hidden state; None if the network does not tell."""
    find = getattr(network, "get_output_embeddings", None)
    found = find() if find is not None else None
    return found if isinstance(found, nn.Linear) else None

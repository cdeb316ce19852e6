import pytest
import torch

from conservator.channels import MaskChannel, ReplacementChannel
from conservator.errors import ConservatorError
from conservator.reference import decode_posterior


def test_the_mode_and_its_probability_by_hand(generator):
    channel = ReplacementChannel(4, 0.6)
    log_probs = torch.randn(7, 4, generator=generator, dtype=torch.float64).log_softmax(-1)
    observed = channel.corrupt(torch.randint(4, (20, 7), generator=generator), generator)
    decoded = decode_posterior(observed, log_probs)
    replaced = 0
    for row in range(20):
        for position in range(7):
            observed_token = int(observed.tokens[row, position])
            joint = [float(log_probs[position, v].exp()) * (0.4 * (v == observed_token) + 0.15) for v in range(4)]
            best = max(range(4), key=joint.__getitem__)
            assert decoded.tokens[row, position] == best
            assert abs(decoded.confidence[row, position] - joint[best] / sum(joint)) < 1e-12
            replaced += best != observed_token
    assert replaced > 0


def test_visible_tokens_are_kept_under_the_mask_channel(generator):
    channel = MaskChannel(4, 0.5)
    log_probs = (5 * torch.randn(9, 4, generator=generator, dtype=torch.float64)).log_softmax(-1)
    observed = channel.corrupt(torch.randint(4, (50, 9), generator=generator), generator)
    decoded = decode_posterior(observed, log_probs)
    assert torch.equal(decoded.tokens[~observed.lost], observed.tokens[~observed.lost])
    assert (decoded.confidence[~observed.lost] == 1).all()
    modes = log_probs.argmax(-1).expand(50, 9)
    assert torch.equal(decoded.tokens[observed.lost], modes[observed.lost])


@pytest.mark.parametrize(("rate", "tokens"), [(1.0, [4, 1, 2]), (0.0, [0, 4, 1])])
def test_an_impossible_token_is_refused_not_overwritten(rate, tokens):
    observed = MaskChannel(4, rate).observe(torch.tensor(tokens))
    with pytest.raises(ConservatorError, match="position 1 has probability 0"):
        decode_posterior(observed, torch.zeros(3, 4).log_softmax(-1))

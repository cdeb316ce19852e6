"""Properties of all experts, in one list, and the exact experts against enumeration."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conservator.channels import MaskChannel
from conservator.errors import ConservatorError
from conservator.experts import PAD, ByteExpert, Context, Memory, UniformSource
from conservator.experts.flow import FlowExpert, SharedBackbone
from conservator.experts.segmentation import ByteMarginalExpert
from conservator.experts.uniform import MaskedFromUniform
from conservator.reference import BigramExpert, CategoricalExpert, EnumeratedExpert, all_sequences
from conservator.vocabularies import BYTES
from conservator_studies.denoiser import Denoiser, train_denoiser
from support.flows import NEAR, VOCABULARY, random_flow
from support.networks import PLAIN, TINY, random_network
from support.pretrained import KINDS, random_denoiser
from support.tables import table_of
from support.token_experts import BigramTokenExpert

SIZE, LENGTH = 4, 5


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


JOINT = torch.randn([SIZE] * LENGTH, generator=seeded())
EXPERTS = {
    "enumerated": EnumeratedExpert(JOINT),
    "uniform source": MaskedFromUniform(EnumeratedExpert(JOINT, UniformSource(), "uniform source"), seed=3),
    "categorical": CategoricalExpert(torch.randn(LENGTH, SIZE, generator=seeded())),
    "bigram": BigramExpert.random(SIZE, 1.0, seeded()),
    "untrained denoiser": Denoiser(SIZE, LENGTH, 16, seeded(), "untrained"),
    "denoiser": train_denoiser(
        torch.randint(SIZE, (100, LENGTH), generator=seeded()),
        SIZE,
        width=16,
        steps=20,
        batch=32,
        generator=seeded(),
        name="trained",
    ),
    "bytes, hourglass": ByteExpert(random_network(TINY), "hourglass", ""),
    "bytes, transformer": ByteExpert(random_network(PLAIN), "transformer", ""),
    "tokens over bytes": ByteMarginalExpert(
        BigramTokenExpert([*(bytes([byte]) for byte in range(BYTES.size)), b"ab", b"\x00\x01\x02"], 0)
    ),
    "tokens, flow matching": FlowExpert(SharedBackbone(random_flow(), VOCABULARY), "flow"),
    "tokens, flow matching, neighbours": FlowExpert(SharedBackbone(random_flow(NEAR, spread=0.1), VOCABULARY), "near"),
    "memory": Memory().condition(
        MaskChannel(BYTES.size, 0.5).observe(torch.randint(BYTES.size, (1, 200), generator=seeded()))
    ),
    **{f"pretrained, {kind}": random_denoiser(kind) for kind in KINDS},
}
experts = pytest.mark.parametrize("expert", EXPERTS.values(), ids=EXPERTS.keys())


masked = pytest.mark.parametrize(
    "expert",
    [expert for expert in EXPERTS.values() if expert.spec.source.shows_noise],
    ids=lambda expert: expert.spec.name,
)
# The surrogate of the simulator reads only one length.
any_length = pytest.mark.parametrize(
    "expert",
    [expert for expert in EXPERTS.values() if not isinstance(expert, Denoiser)],
    ids=lambda expert: expert.spec.name,
)


def hidden_for(expert, hidden):
    """The hidden positions of a batch; none for an expert with a uniform source."""
    return hidden & expert.spec.source.shows_noise


@pytest.fixture
def batch(expert, generator):
    tokens = torch.randint(expert.spec.vocabulary.size, (64, LENGTH), generator=generator)
    return tokens, hidden_for(expert, torch.rand(64, LENGTH, generator=generator) < 0.5)


@experts
def test_rows_are_normalised(expert, batch):
    log_probs = table_of(expert, *batch, 0.5)
    assert log_probs.shape == (64, LENGTH, expert.spec.vocabulary.size)
    assert log_probs.dtype in (torch.float32, torch.float64)
    torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(64, LENGTH, dtype=log_probs.dtype))
    assert torch.isfinite(log_probs).all()


@masked
def test_predictions_do_not_depend_on_hidden_tokens(expert, batch, generator):
    tokens, hidden = batch
    other = torch.where(hidden, torch.randint(expert.spec.vocabulary.size, tokens.shape, generator=generator), tokens)
    assert not torch.equal(tokens, other)
    assert torch.equal(table_of(expert, tokens, hidden, 0.5), table_of(expert, other, hidden, 0.5))


@masked
def test_visible_tokens_are_copied(expert, batch):
    tokens, hidden = batch
    log_probs = table_of(expert, tokens, hidden, 0.5)
    assert torch.equal(log_probs.argmax(-1)[~hidden], tokens[~hidden])
    assert (log_probs.max(-1).values[~hidden] == 0).all()


@experts
def test_rows_of_a_batch_are_independent(expert, batch):
    tokens, hidden = batch
    together = table_of(expert, tokens, hidden, 0.5)
    single = [table_of(expert, row[None], mask[None], 0.5) for row, mask in zip(tokens, hidden, strict=True)]
    torch.testing.assert_close(together, torch.cat(single))


@experts
@given(seed=st.integers(0, 1000), count=st.integers(0, 40), ragged=st.booleans())
def test_only_requested_positions_are_predicted(expert, seed, count, ragged):
    """Any positions in any order, with repetitions and with padding, give rows of the whole table."""
    generator = seeded(seed)
    tokens = torch.randint(expert.spec.vocabulary.size, (7, LENGTH), generator=generator)
    hidden = hidden_for(expert, torch.rand(7, LENGTH, generator=generator) < 0.5)
    if ragged and not isinstance(expert, Denoiser):
        ends = torch.randint(1, LENGTH + 1, (7, 1), generator=generator)
        tokens = tokens.masked_fill(torch.arange(LENGTH) >= ends, PAD)
    context = Context(tokens, hidden, torch.rand(7, generator=generator))
    at = tuple(torch.randint(size, (count,), generator=generator) for size in (7, LENGTH))
    whole = expert.predict(context, context.everywhere()).reshape(7, LENGTH, -1)
    rows = expert.predict(context, at)
    assert rows.shape == (count, expert.spec.vocabulary.size)
    assert rows.dtype == whole.dtype
    torch.testing.assert_close(rows, whole[at])


@any_length
def test_padding_changes_nothing_before_it(expert, batch):
    tokens, hidden = batch
    whole = table_of(expert, tokens, hidden, 0.5)
    for length in range(1, LENGTH + 1):
        short = table_of(expert, tokens[:, :length], hidden[:, :length], 0.5)
        padded = tokens.clone()
        padded[::2, length:] = PAD  # every other row is padded
        together = table_of(expert, padded, hidden, 0.5)
        assert torch.isfinite(together).all()
        torch.testing.assert_close(together[::2, :length], short[::2])
        torch.testing.assert_close(together[1::2], whole[1::2])


@any_length
def test_every_length_up_to_the_context_is_read(expert, generator):
    for length in range(1, (expert.spec.max_length or 12) + 1):
        tokens = torch.randint(expert.spec.vocabulary.size, (2, length), generator=generator)
        log_probs = table_of(expert, tokens, hidden_for(expert, tokens >= 0), 0.0)
        torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(2, length, dtype=log_probs.dtype))


@experts
def test_an_expert_is_deterministic(expert, batch):
    assert torch.equal(table_of(expert, *batch, 0.5), table_of(expert, *batch, 0.5))


@experts
def test_invalid_inputs_are_rejected(expert):
    at = torch.zeros(0, dtype=torch.long), torch.zeros(0, dtype=torch.long)
    for shape in [(LENGTH,), (2, 0)]:
        tokens = torch.zeros(shape, dtype=torch.long)
        with pytest.raises(ConservatorError, match="shape"):
            expert.predict(Context(tokens, hidden_for(expert, tokens == 0)), at)
    if expert.spec.max_length is not None:
        tokens = torch.zeros(1, expert.spec.max_length + 1, dtype=torch.long)
        with pytest.raises(ConservatorError, match=f"at most {expert.spec.max_length} positions"):
            expert.predict(Context(tokens, tokens == 0), at)


def conditionals(log_density, sequences, tokens, hidden):
    """log q(x_l = v | visible tokens) by summing over all sequences: the definition."""
    matches = ((sequences == tokens) | hidden).all(-1)
    weight = torch.where(matches, log_density.exp(), 0.0)
    table = torch.zeros(tokens.shape[0], SIZE, dtype=torch.float64)
    for position in range(len(tokens)):
        table[position].scatter_add_(0, sequences[:, position], weight)
    return (table / weight.sum()).log()


@given(
    tokens=st.lists(st.integers(0, SIZE - 1), min_size=1, max_size=LENGTH),
    pattern=st.integers(0, 2**LENGTH - 1),
    seed=st.integers(0, 100),
    scale=st.floats(0, 4),
)
def test_bigram_conditionals_are_those_of_the_enumerated_joint(tokens, pattern, seed, scale):
    expert = BigramExpert.random(SIZE, scale, seeded(seed))
    tokens = torch.tensor(tokens)
    hidden = torch.tensor([bool(pattern >> position & 1) for position in range(len(tokens))])
    sequences = all_sequences(SIZE, len(tokens))
    log_density = expert.log_density(sequences)
    torch.testing.assert_close(log_density.exp().sum(), torch.tensor(1.0, dtype=torch.float64))
    expected = conditionals(log_density, sequences, tokens, hidden)
    log_probs = table_of(expert, tokens[None], hidden[None])[0]
    torch.testing.assert_close(log_probs.exp(), expected.exp())
    torch.testing.assert_close(log_probs[hidden], expected[hidden])


@given(tokens=st.integers(0, SIZE**LENGTH - 1), pattern=st.integers(0, 2**LENGTH - 1))
def test_enumerated_conditionals_are_those_of_the_joint(tokens, pattern):
    expert, sequences = EXPERTS["enumerated"], all_sequences(SIZE, LENGTH)
    hidden = torch.tensor([bool(pattern >> position & 1) for position in range(LENGTH)])
    expected = conditionals(expert.log_density(sequences), sequences, sequences[tokens], hidden)
    log_probs = table_of(expert, sequences[tokens][None], hidden[None])[0]
    torch.testing.assert_close(log_probs.exp(), expected.exp())


def test_a_categorical_density_is_the_product_of_its_rows(generator):
    expert = CategoricalExpert(torch.randn(3, SIZE, generator=generator))
    sequences = all_sequences(SIZE, 3)
    log_density = expert.log_density(sequences)
    torch.testing.assert_close(log_density.exp().sum(), torch.tensor(1.0, dtype=torch.float64))
    table = expert.log_marginals
    by_hand = table[0, sequences[:, 0]] + table[1, sequences[:, 1]] + table[2, sequences[:, 2]]
    torch.testing.assert_close(log_density, by_hand)


def test_all_sequences_are_all_different():
    sequences = all_sequences(3, 4)
    assert sequences.shape == (81, 4)
    assert len(torch.unique(sequences, dim=0)) == 81
    assert all_sequences(3, 1).tolist() == [[0], [1], [2]]


def test_too_many_sequences_are_rejected():
    with pytest.raises(ConservatorError, match="too many to enumerate"):
        all_sequences(256, 4)

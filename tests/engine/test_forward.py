"""The paged, mixed forward pass against a plain transformer that knows no pages, no cache and no batch."""

import math

import numpy as np
import pytest
import torch

from chunkfit.engine import Engine, ModelConfig, SequenceWork, host_step
from chunkfit.engine.attention import torch_ops
from chunkfit.engine.config import Llama3RopeScaling
from chunkfit.engine.kv_cache import PAGE_SIZE, pages_for
from chunkfit.engine.rope import rope_frequencies

VOCAB = 97
CLOSE = {"rtol": 0, "atol": 1e-10}
BOUNDARY_LENGTHS = (1, 15, 16, 17, 33)


# What sets the members of the family apart. Llama 3.1's scaling is wide enough to reach, keep and mix some of
# the four frequencies of these heads.
FAMILY = {
    "llama": {},
    "llama3.1": {"rope_scaling": Llama3RopeScaling(8.0, 1.0, 4.0, 40)},
    "qwen2.5": {"qkv_bias": True},
    "qwen3": {"qk_norm": True},
}
every_member = pytest.mark.parametrize("member", FAMILY)


def config(heads=4, kv_heads=2, tie=False, member="llama"):
    return ModelConfig(
        name="test",
        vocab_size=VOCAB,
        hidden_size=24,
        layers=3,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=8,
        intermediate_size=40,
        rope_theta=500.0,
        rms_norm_eps=1e-5,
        context_length=4096,
        tie_embeddings=tie,
        **FAMILY[member],
    )


def engine(shape=None):
    """Biases and norm weights far from what would leave them without effect."""
    machine = Engine(shape or config(), device="cpu", kv_tokens=4096, dtype=torch.float64)
    generator = torch.Generator().manual_seed(11)
    for layer in machine.weights.layers:
        if layer.query_key_value_bias is not None:
            layer.query_key_value_bias.normal_(generator=generator)
        if layer.head_norms is not None:
            for norm in (layer.head_norms.query, layer.head_norms.key):
                norm.uniform_(0.5, 1.5, generator=generator)
    return machine


def tokens(length, seed):
    return np.random.default_rng(seed).integers(0, VOCAB, length).tolist()


def compute(machine, token_ids, pages, cuts=()):
    """Logits after the last token, the prompt computed in chunks cut at `cuts`."""
    for first, last in zip((0, *cuts), (*cuts, len(token_ids)), strict=True):
        logits = machine.logits([], [SequenceWork(token_ids[first:last], first, pages)])
    return logits[0]


def prepared(machine, length, seed):
    """Tokens and pages of a sequence whose first `length` tokens are in the cache."""
    token_ids = tokens(length + 64, seed)
    pages = machine.allocator.allocate(pages_for(length + 64))
    if length:
        compute(machine, token_ids[:length], pages)
    return token_ids, pages


def reference(machine, token_ids):
    """Logits (tokens, vocab): the whole sequence at once with the full attention matrix.

    Written from the published formulas with explicit loops over heads; shares only the weights.
    """
    shape, weights = machine.config, machine.weights
    head_dim = shape.head_dim

    def norm(x, weight):
        return x / torch.sqrt((x * x).mean(-1, keepdim=True) + shape.rms_norm_eps) * weight

    def frequency(pair):
        plain = shape.rope_theta ** (-2 * pair / head_dim)
        scaling = shape.rope_scaling
        if scaling is None:
            return plain
        wavelength = 2 * math.pi / plain
        if wavelength < scaling.original_context_length / scaling.high_freq_factor:
            return plain
        if wavelength > scaling.original_context_length / scaling.low_freq_factor:
            return plain / scaling.factor
        smooth = scaling.original_context_length / wavelength - scaling.low_freq_factor
        smooth /= scaling.high_freq_factor - scaling.low_freq_factor
        return (1 - smooth) * plain / scaling.factor + smooth * plain

    frequencies = torch.tensor([frequency(pair) for pair in range(head_dim // 2)], dtype=torch.float64)
    turns = torch.polar(torch.ones(1, dtype=torch.float64), torch.arange(len(token_ids))[:, None] * frequencies[None])

    def rotate(x):
        turned = torch.complex(x[:, : head_dim // 2], x[:, head_dim // 2 :]) * turns
        return torch.cat((turned.real, turned.imag), dim=1)

    causal = torch.ones(len(token_ids), len(token_ids), dtype=torch.bool).tril()
    hidden = weights.embedding[torch.tensor(token_ids)]
    for layer in weights.layers:
        projected = norm(hidden, layer.attention_norm) @ layer.query_key_value.T
        if shape.qkv_bias:
            projected = projected + layer.query_key_value_bias
        heads = [projected[:, i : i + head_dim] for i in range(0, projected.shape[1], head_dim)]
        outputs = []
        for head in range(shape.heads):
            kv_head = head // (shape.heads // shape.kv_heads)
            query, key = heads[head], heads[shape.heads + kv_head]
            value = heads[shape.heads + shape.kv_heads + kv_head]
            if shape.qk_norm:
                query, key = norm(query, layer.head_norms.query), norm(key, layer.head_norms.key)
            scores = rotate(query) @ rotate(key).T / math.sqrt(head_dim)
            outputs.append(scores.masked_fill(~causal, -math.inf).softmax(-1) @ value)
        hidden = hidden + torch.cat(outputs, dim=1) @ layer.attention_out.T
        gate, up = (norm(hidden, layer.mlp_norm) @ layer.gate_up.T).split(shape.intermediate_size, dim=1)
        hidden = hidden + (gate * torch.sigmoid(gate) * up) @ layer.down.T
    return norm(hidden, weights.final_norm) @ weights.lm_head.T


def test_the_scaling_of_this_test_keeps_slows_and_mixes():
    """Else the tests below would not see an error in one of the three."""
    plain = rope_frequencies(8, 500.0, None)
    slowing = plain / rope_frequencies(8, 500.0, FAMILY["llama3.1"]["rope_scaling"])
    assert slowing[0] == 1
    assert 1 < slowing[1] < 8
    assert slowing[2:] == pytest.approx([8, 8])


@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 1), (4, 2), (2, 2)])
@pytest.mark.parametrize("tie", [False, True])
@every_member
def test_paged_equals_contiguous(heads, kv_heads, tie, member):
    machine = engine(config(heads, kv_heads, tie, member))
    token_ids, pages = prepared(machine, 45, seed=1)
    with torch.inference_mode():
        expected = reference(machine, token_ids[:46])
    torch.testing.assert_close(compute(machine, token_ids[:45], pages), expected[44], **CLOSE)
    decoded = machine.logits([SequenceWork(token_ids[45:46], 45, pages)], [])
    torch.testing.assert_close(decoded[0], expected[45], **CLOSE)


@pytest.mark.parametrize("length", BOUNDARY_LENGTHS)
def test_page_boundaries(length):
    machine = engine()
    token_ids, pages = prepared(machine, 0, seed=length)
    with torch.inference_mode():
        expected = reference(machine, token_ids[: length + 1])
    torch.testing.assert_close(
        compute(machine, token_ids[:length], pages[: pages_for(length)]), expected[length - 1], **CLOSE
    )
    decode = SequenceWork(token_ids[length : length + 1], length, pages[: pages_for(length + 1)])
    torch.testing.assert_close(machine.logits([decode], [])[0], expected[length], **CLOSE)


@pytest.mark.parametrize("seed", range(3))
@every_member
def test_any_chunking_equals_the_whole_prompt(member, seed, monkeypatch):
    machine = engine(config(member=member))
    rng = np.random.default_rng(seed)
    token_ids = tokens(83, seed)
    whole = compute(machine, token_ids, machine.allocator.allocate(6))
    cuts = sorted(rng.choice(np.arange(1, 83), size=rng.integers(1, 8), replace=False).tolist())
    monkeypatch.setattr(torch_ops, "QUERY_BLOCK", [512, 7][seed % 2])  # long chunks go in blocks of queries
    torch.testing.assert_close(compute(machine, token_ids, machine.allocator.allocate(6), cuts), whole, **CLOSE)


@every_member
def test_one_token_at_a_time_equals_the_whole_prompt(member):
    machine = engine(config(member=member))
    token_ids = tokens(35, 9)
    whole = compute(machine, token_ids, machine.allocator.allocate(3))
    pages = machine.allocator.allocate(3)
    for position, token in enumerate(token_ids):
        logits = machine.logits([SequenceWork([token], position, pages)], [])
    torch.testing.assert_close(logits[0], whole, **CLOSE)


@pytest.mark.parametrize("options", [{}, {"QUERY_BLOCK": 5}, {"GROUP_TOKENS": 300}, {"PADDING_TOKENS": 0}])
@every_member
def test_mixed_batch_equals_its_parts_alone(member, options, monkeypatch):
    machine = engine(config(member=member))
    for name, value in options.items():
        monkeypatch.setattr(torch_ops if name == "QUERY_BLOCK" else host_step, name, value)
    # Contexts of one group, of neighbouring groups, in no order; prefixes inside and at the end of a page.
    decodes, chunks = [], []
    for seed, length in enumerate((70, 700, 17, 64, 650)):
        token_ids, pages = prepared(machine, length, seed)
        decodes.append(SequenceWork(token_ids[length : length + 1], length, pages))
    for seed, (prefix, count) in enumerate(((21, 30), (48, 1), (0, 17))):
        token_ids, pages = prepared(machine, prefix, 100 + seed)
        chunks.append(SequenceWork(token_ids[prefix : prefix + count], prefix, pages))
    alone = [machine.logits([work], []) for work in decodes] + [machine.logits([], [work]) for work in chunks]
    together = machine.logits(decodes, chunks)
    assert together.shape == (8, VOCAB)
    torch.testing.assert_close(together, torch.cat(alone), **CLOSE)


@every_member
def test_page_order_does_not_matter(member):
    machine = engine(config(member=member))
    token_ids = tokens(90, 3)
    pages = machine.allocator.allocate(6)
    rising = compute(machine, token_ids, sorted(pages))
    shuffled = [pages[i] for i in (3, 0, 5, 1, 4, 2)]
    torch.testing.assert_close(compute(machine, token_ids, shuffled, cuts=(40,)), rising, **CLOSE)


def poke(machine, pages, position, value):
    page = pages[position // PAGE_SIZE]
    machine.cache.keys[:, page, position % PAGE_SIZE] = value
    machine.cache.values[:, page, position % PAGE_SIZE] = value


@pytest.mark.parametrize("position", [0, 15, 16, 36])
@pytest.mark.parametrize("kind", ["decode", "chunk"])
def test_a_sequence_reads_its_context(kind, position):
    machine = engine()
    _, pages = prepared(machine, 37, seed=4)
    work = ([SequenceWork([1], 37, pages)], []) if kind == "decode" else ([], [SequenceWork([1, 2, 3], 37, pages)])
    before = machine.logits(*work)
    poke(machine, pages, position, 3.0)
    assert (machine.logits(*work) - before).abs().max() > 1e-4


def test_a_sequence_reads_nothing_else():
    """Everything outside is NaN: other pages, page 0, padding's page, and what is unused of each last page."""
    machine = engine()
    lengths = (3, 37, 600, 560)  # two in one padded group, one shorter than a page
    works = []
    for seed, length in enumerate(lengths):
        token_ids, pages = prepared(machine, length, seed)
        works.append(SequenceWork(token_ids[length : length + 1], length, pages))
    token_ids, pages = prepared(machine, 21, 50)
    chunk = SequenceWork(token_ids[21:40], 21, pages)
    before = machine.logits(works, [chunk])
    inside = torch.zeros(machine.cache.keys.shape[1] * PAGE_SIZE, dtype=torch.bool)
    for work in (*works, chunk):
        for position in range(work.start + len(work.token_ids)):
            inside[work.pages[position // PAGE_SIZE] * PAGE_SIZE + position % PAGE_SIZE] = True
    for pool in (machine.cache.keys, machine.cache.values):
        pool.flatten(1, 2)[:, ~inside] = math.nan
    torch.testing.assert_close(machine.logits(works, [chunk]), before, rtol=0, atol=0)


def test_a_chunk_does_not_see_later_tokens():
    """Of two chunks that differ in their last token only, the KV of the others is the same."""
    machine = engine()
    token_ids, pages = prepared(machine, 20, seed=6)
    kept = []
    for last in (1, 2):
        machine.logits([], [SequenceWork([*token_ids[20:30], last], 20, pages)])
        kept.append(machine.cache.values[:, pages].flatten(1, 2)[:, :31].clone())
    torch.testing.assert_close(kept[0][:, :30], kept[1][:, :30], rtol=0, atol=0)
    assert (kept[0][:, 30] - kept[1][:, 30]).abs().max() > 1e-4

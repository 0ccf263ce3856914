"""Logits of the engine against transformers: the same config.json, the same random weights, float32."""

import math

import numpy as np
import pytest
import torch
from support.hugging_face import load_state_dict

from chunkfit.engine import Engine, SequenceWork, from_hf_config
from chunkfit.engine.kv_cache import pages_for

transformers = pytest.importorskip("transformers", reason="needs transformers: pip install 'chunkfit[dev]'")

CLOSE = {"rtol": 0, "atol": 1e-4}
LENGTH = 75
SHAPE = {
    "vocab_size": 101,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,  # not hidden_size / heads
    "max_position_embeddings": 512,
}
# Keeps, mixes and slows some of the eight frequencies of these heads within LENGTH tokens.
LLAMA_3_1 = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 40,
}
MODELS = {
    "llama": ("Llama", {}),
    "llama-3.1": ("Llama", {"rope_parameters": LLAMA_3_1}),
    "llama, derived head size": ("Llama", {"head_dim": None, "hidden_size": 64}),
    "qwen2.5": ("Qwen2", {"sliding_window": 16, "use_sliding_window": False}),
    "qwen3": ("Qwen3", {"rms_norm_eps": 1e-5}),
}


def random_model(family, options, seed):
    """A transformers model whose weights all matter: its own start has deviation 0.02, biases of 0, norms of 1."""
    config = getattr(transformers, f"{family}Config")(**(SHAPE | options))
    model = getattr(transformers, f"{family}ForCausalLM")._from_config(config, attn_implementation="eager")
    model.config.architectures = [type(model).__name__]
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 2:
                parameter.normal_(0.0, 1 / math.sqrt(parameter.shape[1]), generator=generator)
            elif name.endswith("bias"):
                parameter.normal_(generator=generator)
            else:
                parameter.uniform_(0.5, 1.5, generator=generator)
    return model.eval()


def prompt(seed):
    return np.random.default_rng(seed).integers(0, SHAPE["vocab_size"], LENGTH).tolist()


@pytest.mark.parametrize("tie", [False, True], ids=["untied", "tied"])
@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 1), (4, 2), (2, 2)])
@pytest.mark.parametrize("name", MODELS)
def test_logits_equal_those_of_transformers(name, heads, kv_heads, tie, tmp_path):
    family, options = MODELS[name]
    sizes = {"num_attention_heads": heads, "num_key_value_heads": kv_heads, "tie_word_embeddings": tie}
    model = random_model(family, options | sizes, seed=heads)
    model.config.save_pretrained(tmp_path)
    engine = Engine(from_hf_config(tmp_path), device="cpu", kv_tokens=512, dtype=torch.float32)
    assert engine.config.tie_embeddings is tie
    assert engine.config.parameter_count == sum(parameter.numel() for parameter in model.parameters())
    load_state_dict(engine, model.state_dict())

    token_ids, other_ids = prompt(1), prompt(2)
    with torch.inference_mode():
        expected, other = model(torch.tensor([token_ids, other_ids])).logits
    assert expected.std() > 0.3  # 1e-4 of it is a test
    pages, other_pages = (engine.allocator.allocate(pages_for(LENGTH)) for _ in range(2))
    # A prompt in two chunks, then token by token beside another prompt's chunks.
    for first, last in ((0, 33), (33, 50)):
        logits = engine.logits([], [SequenceWork(token_ids[first:last], first, pages)])
        torch.testing.assert_close(logits[0], expected[last - 1], **CLOSE)
    for at in range(50, LENGTH):
        first, last = 3 * (at - 50), 3 * (at - 49)
        logits = engine.logits(
            [SequenceWork(token_ids[at : at + 1], at, pages)], [SequenceWork(other_ids[first:last], first, other_pages)]
        )
        torch.testing.assert_close(logits, torch.stack((expected[at], other[last - 1])), **CLOSE)

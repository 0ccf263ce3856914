"""Weights of a transformers model, put into our engine."""

import torch


def load_state_dict(engine, state):
    """Copies `state` (the state dict of a Llama, Qwen2 or Qwen3 model for causal language modelling) into the
    weights of `engine`, in place. Every tensor of it must find its place.
    """
    left = {name: tensor.to(engine.dtype) for name, tensor in state.items()}

    def take(*names):
        return torch.cat([left.pop(f"{name}") for name in names])

    weights = engine.weights
    weights.embedding.copy_(take("model.embed_tokens.weight"))
    weights.final_norm.copy_(take("model.norm.weight"))
    weights.lm_head.copy_(take("lm_head.weight"))  # the embedding once more where the two are tied
    for index, layer in enumerate(weights.layers):
        at = f"model.layers.{index}."
        projections = [f"{at}self_attn.{name}_proj" for name in "qkv"]
        layer.query_key_value.copy_(take(*(f"{name}.weight" for name in projections)))
        if layer.query_key_value_bias is not None:
            layer.query_key_value_bias.copy_(take(*(f"{name}.bias" for name in projections)))
        if layer.head_norms is not None:
            layer.head_norms.query.copy_(take(f"{at}self_attn.q_norm.weight"))
            layer.head_norms.key.copy_(take(f"{at}self_attn.k_norm.weight"))
        layer.attention_out.copy_(take(f"{at}self_attn.o_proj.weight"))
        layer.attention_norm.copy_(take(f"{at}input_layernorm.weight"))
        layer.mlp_norm.copy_(take(f"{at}post_attention_layernorm.weight"))
        layer.gate_up.copy_(take(f"{at}mlp.gate_proj.weight", f"{at}mlp.up_proj.weight"))
        layer.down.copy_(take(f"{at}mlp.down_proj.weight"))
    assert not left, f"tensors without a place in the engine: {sorted(left)}"

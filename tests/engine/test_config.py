import json
from dataclasses import replace
from pathlib import Path

import pytest

from chunkfit.engine import PRESETS, from_hf_config, resolve_model
from chunkfit.engine.config import Llama3RopeScaling
from chunkfit.files.errors import UsageError

BAD = Path(__file__).parent / "bad_configs"

LLAMA_3_8B = {
    "architectures": ["LlamaForCausalLM"],
    "attention_bias": False,
    "hidden_act": "silu",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "max_position_embeddings": 8192,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-05,
    "rope_scaling": None,
    "rope_theta": 500000.0,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "vocab_size": 128256,
}
LLAMA_3_SCALING = {
    "factor": 32.0,
    "high_freq_factor": 4.0,
    "low_freq_factor": 1.0,
    "original_max_position_embeddings": 8192,
    "rope_type": "llama3",
}
# What the published files say beyond, or other than, LLAMA_3_8B.
PUBLISHED = {
    "llama-3-8b": {},
    "llama-3.2-1b": {
        "head_dim": 64,
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "max_position_embeddings": 131072,
        "mlp_bias": False,
        "num_hidden_layers": 16,
        "rope_scaling": LLAMA_3_SCALING,
        "tie_word_embeddings": True,
    },
    "qwen2.5-7b": {
        "architectures": ["Qwen2ForCausalLM"],
        "attention_bias": ...,
        "hidden_size": 3584,
        "intermediate_size": 18944,
        "max_position_embeddings": 131072,
        "max_window_layers": 28,
        "num_attention_heads": 28,
        "num_hidden_layers": 28,
        "num_key_value_heads": 4,
        "rms_norm_eps": 1e-06,
        "rope_scaling": ...,
        "rope_theta": 1000000.0,
        "sliding_window": 131072,
        "use_mrope": False,
        "use_sliding_window": False,
        "vocab_size": 152064,
    },
    "qwen3-8b": {
        "architectures": ["Qwen3ForCausalLM"],
        "head_dim": 128,
        "intermediate_size": 12288,
        "max_position_embeddings": 40960,
        "max_window_layers": 36,
        "num_hidden_layers": 36,
        "rms_norm_eps": 1e-06,
        "rope_theta": 1000000,
        "sliding_window": None,
        "use_sliding_window": False,
        "vocab_size": 151936,
    },
}


def written(folder, **changes):
    fields = {name: value for name, value in (LLAMA_3_8B | changes).items() if value is not ...}
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(fields))
    return folder


def test_parameter_counts_are_the_published_ones():
    counts = {name: config.parameter_count for name, config in PRESETS.items() if name != "tiny"}
    assert counts == {
        "llama-3.2-1b": 1_235_814_400,
        "llama-3-8b": 8_030_261_248,
        "qwen2.5-7b": 7_615_616_512,
        "qwen3-8b": 8_190_735_360,
    }
    assert PRESETS["llama-3-8b"].kv_bytes_per_token(2) == 131_072
    assert PRESETS["llama-3.2-1b"].kv_bytes_per_token(2) == 32_768
    assert PRESETS["qwen2.5-7b"].kv_bytes_per_token(2) == 57_344
    assert PRESETS["qwen3-8b"].kv_bytes_per_token(2) == 147_456


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_config_file_gives_the_preset_of_that_model(name, tmp_path):
    folder = written(tmp_path / name, **PUBLISHED[name])
    assert from_hf_config(folder) == PRESETS[name]
    assert resolve_model(folder / "config.json") == PRESETS[name]
    assert resolve_model(str(folder)) == PRESETS[name]
    assert resolve_model(name) is PRESETS[name]


def test_the_shape_holds_what_changes_the_work():
    plain = PRESETS["llama-3-8b"]
    assert plain.shape()["qkv_bias"] is plain.shape()["qk_norm"] is False
    for field in ("layers", "intermediate_size", "vocab_size"):
        assert replace(plain, **{field: 7}).shape()[field] == 7
    assert replace(plain, qkv_bias=True).shape() == plain.shape() | {"qkv_bias": True}
    assert replace(plain, qk_norm=True).shape() == plain.shape() | {"qk_norm": True}
    same_work = {"rope_theta": 1e6, "rms_norm_eps": 1e-6, "context_length": 64, "tie_embeddings": True}
    assert replace(plain, **same_work, rope_scaling=Llama3RopeScaling(8, 1, 4, 8192)).shape() == plain.shape()


def test_llama_derives_what_its_file_leaves_out(tmp_path):
    absent = dict.fromkeys(("num_key_value_heads", "rope_theta", "tie_word_embeddings", "rms_norm_eps"), ...)
    config = from_hf_config(written(tmp_path / "m", **absent))
    assert (config.kv_heads, config.head_dim) == (32, 128)
    assert (config.rope_theta, config.rms_norm_eps, config.tie_embeddings) == (10_000.0, 1e-6, False)
    null = from_hf_config(written(tmp_path / "m", num_key_value_heads=None, head_dim=None, rope_parameters=None))
    assert (null.kv_heads, null.head_dim) == (32, 128)


@pytest.mark.parametrize(
    ("architecture", "field"),
    [
        ("MistralForCausalLM", "num_key_value_heads"),
        ("MistralForCausalLM", "sliding_window"),
        ("Qwen2ForCausalLM", "num_key_value_heads"),
        ("Qwen3ForCausalLM", "num_key_value_heads"),
        ("Qwen3ForCausalLM", "head_dim"),
    ],
)
def test_the_others_must_say_it(architecture, field, tmp_path):
    fields = {"architectures": [architecture], "head_dim": 128, "sliding_window": None}
    assert from_hf_config(written(tmp_path / "m", **fields)).name == "m"
    with pytest.raises(UsageError, match=rf"field '{field}' is missing; found .* it in the file of a {architecture}"):
        from_hf_config(written(tmp_path / "m", **(fields | {field: ...})))


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"use_sliding_window": False},
        {"use_sliding_window": True, "max_window_layers": 32},  # and there are no more layers
        {"use_sliding_window": True, "max_window_layers": 8, "layer_types": ["full_attention"] * 32},
    ],
)
@pytest.mark.parametrize("architecture", ["Qwen2ForCausalLM", "Qwen3ForCausalLM"])
def test_a_window_that_no_layer_uses(architecture, fields, tmp_path):
    qwen = {"architectures": [architecture], "head_dim": 128, "sliding_window": 4096}
    assert from_hf_config(written(tmp_path / "m", **qwen, **fields)).layers == 32


def test_rope_as_older_and_newer_files_write_it(tmp_path):
    scaling = Llama3RopeScaling(factor=32.0, low_freq_factor=1.0, high_freq_factor=4.0, original_context_length=8192)
    older = {name: value for name, value in LLAMA_3_SCALING.items() if name != "rope_type"} | {"type": "llama3"}
    newer = LLAMA_3_SCALING | {"rope_theta": 1e6}
    for fields, theta in (
        ({"rope_scaling": LLAMA_3_SCALING}, 5e5),
        ({"rope_scaling": older}, 5e5),
        ({"rope_parameters": newer, "rope_theta": ...}, 1e6),
    ):
        config = from_hf_config(written(tmp_path / "m", **fields))
        assert (config.rope_scaling, config.rope_theta) == (scaling, theta)
    plain = {"rope_theta": 1e6, "rope_type": "default"}
    config = from_hf_config(written(tmp_path / "m", head_dim=64, rope_theta=..., rope_parameters=plain))
    assert (config.head_dim, config.rope_theta, config.rope_scaling) == (64, 1e6, None)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("absent.json", "no such file"),
        ("cut.json", r"line 4, column \d+: .*expected JSON"),
        ("not_utf8.json", "byte 2 is not UTF-8"),
        ("list.json", "found a JSON list; expected an object"),
        ("no_architectures.json", "'architectures' is missing; found hidden_size, model_type"),
        ("no_layers.json", "'num_hidden_layers' is missing; found architectures, hidden_act"),
        ("text_size.json", "'hidden_size' is '4096'; expected a whole number"),
        ("negative_layers.json", "'num_hidden_layers' is -1; expected a whole number"),
        ("true_size.json", "'vocab_size' is True; expected a whole number"),
        ("heads_do_not_divide.json", "hidden_size 4096 is no multiple of num_attention_heads 30"),
        ("kv_heads_do_not_divide.json", "heads is 32 and kv_heads is 5"),
        ("odd_head_dim.json", "head_dim is 65; expected an even number"),
        ("infinite_theta.json", "rope_theta is inf; expected a finite number"),
        ("text_eps.json", "rms_norm_eps is '1e-5'; expected a finite number"),
        ("text_tie.json", "'tie_word_embeddings' is 'no'; expected true or false"),
        ("t5.json", "'is_encoder_decoder' is true"),
        ("bert.json", "'architectures' is 'BertModel': not a decoder-only"),
        ("gemma.json", "'architectures' is 'GemmaForCausalLM': a decoder that this engine does not build"),
        ("qwen3_moe.json", "'architectures' is 'Qwen3MoeForCausalLM': a decoder that this engine does not build"),
        ("mixtral.json", "'architectures' is 'MixtralForCausalLM'"),
        ("experts.json", "'num_local_experts' is 8: a mixture of experts"),
        ("sliding_window.json", "'sliding_window' is 4096: sliding-window attention.* expected null: "),
        ("sliding_window_qwen.json", "'sliding_window' is 4096: .* expected null, or 'use_sliding_window' false"),
        ("layer_types.json", "'layer_types' holds 'sliding_attention'"),
        ("quantised.json", "'quantization_config' is .*: quantised weights"),
        ("attention_bias.json", "'attention_bias' is True"),
        ("mlp_bias.json", "'mlp_bias' is True"),
        ("gelu.json", "'hidden_act' is 'gelu'"),
        ("yarn.json", "the rope type is 'yarn', whose angles .* expected 'default' or 'llama3'"),
        ("rope_text.json", "'rope_scaling' is 'llama3'; expected an object or null"),
        ("rope_lacks_factor.json", "the rope scaling lacks 'factor'; found high_freq_factor, low_freq_factor"),
        ("rope_no_band.json", "rope scaling llama3: low_freq_factor is 4.0 and high_freq_factor is 4.0"),
        ("rope_text_factor.json", "rope scaling llama3: factor is '8'; expected a finite number"),
        ("partial_rotation.json", "'partial_rotary_factor' is 0.5: RoPE on a part of each head"),
    ],
)
def test_bad_files_name_the_file_and_the_field(name, message):
    with pytest.raises(UsageError, match=message) as caught:
        from_hf_config(BAD / name)
    assert str(caught.value).startswith(str(BAD / name))


def test_every_bad_file_is_used():
    used = Path(__file__).read_text()
    assert [file.name for file in BAD.iterdir() if f'"{file.name}"' not in used] == []


def test_a_folder_without_config(tmp_path):
    with pytest.raises(UsageError, match=r"config\.json: no such file"):
        resolve_model(tmp_path)


def test_unknown_name_lists_the_presets():
    with pytest.raises(
        UsageError, match=r"'llama-9': no preset .* expected one of tiny, llama-3.2-1b, llama-3-8b, qwen2.5-7b"
    ):
        resolve_model("llama-9")


@pytest.mark.parametrize("changes", [{"layers": 0}, {"heads": 3}, {"head_dim": 7}, {"rms_norm_eps": 0.0}])
def test_impossible_shapes(changes):
    with pytest.raises(UsageError, match=f"model tiny: {next(iter(changes))}"):
        replace(PRESETS["tiny"], **changes)

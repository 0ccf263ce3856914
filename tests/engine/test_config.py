import json
from dataclasses import replace
from pathlib import Path

import pytest

from chunkfit.engine import PRESETS, from_hf_config, resolve_model
from chunkfit.tables.errors import UsageError

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


def written(folder, **changes):
    fields = {name: value for name, value in (LLAMA_3_8B | changes).items() if value is not ...}
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(fields))
    return folder


def test_parameter_counts_are_the_published_ones():
    assert PRESETS["llama-3-8b"].parameter_count == 8_030_261_248
    assert PRESETS["llama-3.2-1b"].parameter_count == 1_235_814_400
    assert PRESETS["llama-3-8b"].kv_bytes_per_token(2) == 131_072
    assert PRESETS["llama-3.2-1b"].kv_bytes_per_token(2) == 32_768


def test_a_config_file_gives_the_preset_of_that_model(tmp_path):
    folder = written(tmp_path / "llama-3-8b")
    assert from_hf_config(folder) == PRESETS["llama-3-8b"]
    assert resolve_model(folder / "config.json") == PRESETS["llama-3-8b"]
    assert resolve_model(str(folder)) == PRESETS["llama-3-8b"]
    assert resolve_model("tiny") is PRESETS["tiny"]


def test_defaults_of_absent_fields(tmp_path):
    absent = dict.fromkeys(("num_key_value_heads", "rope_theta", "tie_word_embeddings", "rms_norm_eps"), ...)
    config = from_hf_config(written(tmp_path / "m", architectures=["MistralForCausalLM"], **absent))
    assert (config.kv_heads, config.head_dim) == (32, 128)
    assert (config.rope_theta, config.rms_norm_eps, config.tie_embeddings) == (10_000.0, 1e-6, False)


def test_fields_that_say_more(tmp_path):
    changes = {"head_dim": 64, "rope_theta": ..., "rope_parameters": {"rope_theta": 1e6, "rope_type": "default"}}
    config = from_hf_config(
        written(tmp_path / "m", sliding_window=None, rope_scaling={"rope_type": "llama3"}, **changes)
    )
    assert (config.head_dim, config.rope_theta) == (64, 1e6)


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
        ("qwen2.json", "'architectures' is 'Qwen2ForCausalLM': a decoder that this engine does not build"),
        ("mixtral.json", "'architectures' is 'MixtralForCausalLM'"),
        ("experts.json", "'num_local_experts' is 8: a mixture of experts"),
        ("sliding_window.json", "'sliding_window' is 4096: sliding-window attention"),
        ("layer_types.json", "'layer_types' holds 'sliding_attention'"),
        ("quantised.json", "'quantization_config' is .*: quantised weights"),
        ("attention_bias.json", "'attention_bias' is True"),
        ("mlp_bias.json", "'mlp_bias' is True"),
        ("gelu.json", "'hidden_act' is 'gelu'"),
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
    with pytest.raises(UsageError, match=r"'llama-9': no preset .* expected one of tiny, llama-3.2-1b, llama-3-8b"):
        resolve_model("llama-9")


@pytest.mark.parametrize("changes", [{"layers": 0}, {"heads": 3}, {"head_dim": 7}, {"rms_norm_eps": 0.0}])
def test_impossible_shapes(changes):
    with pytest.raises(UsageError, match=f"model tiny: {next(iter(changes))}"):
        replace(PRESETS["tiny"], **changes)

"""The shape of a model by name or from a Hugging Face `config.json`.

A field that changes the work of an iteration and is not built (experts, sliding windows in use, other biases,
quantised weights) is refused by name, and so are rotation angles that the engine does not compute. Field names and
defaults: transformers, `LlamaConfig`, `MistralConfig`, `Qwen2Config`, `Qwen3Config`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from ..files.errors import UsageError
from .config import PRESETS, Llama3RopeScaling, ModelConfig


@dataclass(frozen=True, slots=True)
class _Architecture:
    """Properties that the architecture's name implies.

    window_by_layer: a sliding window counts only where `use_sliding_window` is true, and only in the layers
    from `max_window_layers` on. required: fields that its file must hold, because transformers would assume
    a number (128 for the head size, 4,096 for the window) where Llama derives it.
    """

    qkv_bias: bool = False
    qk_norm: bool = False
    window_by_layer: bool = False
    required: tuple[str, ...] = ()


ARCHITECTURES: dict[str, _Architecture] = {
    "LlamaForCausalLM": _Architecture(),
    "MistralForCausalLM": _Architecture(required=("num_key_value_heads", "sliding_window")),
    "Qwen2ForCausalLM": _Architecture(qkv_bias=True, window_by_layer=True, required=("num_key_value_heads",)),
    "Qwen3ForCausalLM": _Architecture(qk_norm=True, window_by_layer=True, required=("num_key_value_heads", "head_dim")),
}

# Field -> (values of models that the engine builds, meaning of any other value).
_CHANGES_THE_WORK: dict[str, tuple[tuple[object, ...], str]] = {
    "num_local_experts": ((None, 0), "a mixture of experts"),
    "num_experts": ((None, 0), "a mixture of experts"),
    "n_routed_experts": ((None, 0), "a mixture of experts"),
    "quantization_config": ((None,), "quantised weights"),
    "attention_bias": ((None, False), "biases in all attention projections, the output's too"),
    "mlp_bias": ((None, False), "biases in the MLP"),
    "hidden_act": ((None, "silu", "swish"), "an MLP that is not SwiGLU"),
    "partial_rotary_factor": ((None, 1, 1.0), "RoPE on a part of each head"),
}


def resolve_model(name_or_path: str | Path) -> ModelConfig:
    """The preset of that name, or the shape in that `config.json` (or the folder that holds one).

    Raises UsageError for an unknown name (listing the presets) or a file that cannot be used.

    >>> resolve_model("llama-3-8b").parameter_count
    8030261248
    """
    name = str(name_or_path)
    if name in PRESETS:
        return PRESETS[name]
    path = Path(name)
    if path.exists() or path.suffix == ".json" or "/" in name:
        return from_hf_config(path)
    raise UsageError(
        f"model {name!r}: no preset and no file of that name; expected one of {', '.join(PRESETS)} or the "
        "path of a Hugging Face config.json"
    )


def from_hf_config(path: str | Path) -> ModelConfig:
    """The shape in a Hugging Face `config.json`; `path` is the file or its folder.

    In Llama's files head_dim defaults to hidden_size / heads and kv_heads to heads. Raises UsageError naming
    file and field for a file that is absent, no JSON, lacks a field, is not a decoder or is a decoder that is
    not built.
    """
    path = Path(path)
    file = path / "config.json" if path.is_dir() else path
    fields = _load(file)
    architecture = _require_supported(file, fields)

    heads = _size(file, fields, "num_attention_heads")
    hidden_size = _size(file, fields, "hidden_size")
    if fields.get("head_dim") is not None:
        head_dim = _size(file, fields, "head_dim")
    elif hidden_size % heads:
        _refuse(
            file,
            f"hidden_size {hidden_size} is no multiple of num_attention_heads {heads} and head_dim is missing",
            "a head_dim field, or sizes that divide",
        )
    else:
        head_dim = hidden_size // heads
    kv_heads = heads if fields.get("num_key_value_heads") is None else _size(file, fields, "num_key_value_heads")
    rope = _rope_fields(file, fields)
    try:
        return ModelConfig(
            name=path.name if path.is_dir() else (path.parent.name or path.stem),
            vocab_size=_size(file, fields, "vocab_size"),
            hidden_size=hidden_size,
            layers=_size(file, fields, "num_hidden_layers"),
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            intermediate_size=_size(file, fields, "intermediate_size"),
            rope_theta=rope.get("rope_theta", fields.get("rope_theta", 10_000.0)),
            rms_norm_eps=fields.get("rms_norm_eps", 1e-6),
            context_length=_size(file, fields, "max_position_embeddings"),
            tie_embeddings=_flag(file, fields, "tie_word_embeddings"),
            qkv_bias=architecture.qkv_bias,
            qk_norm=architecture.qk_norm,
            rope_scaling=_rope_scaling(file, rope),
        )
    except UsageError as error:
        if str(error).startswith(str(file)):
            raise
        raise UsageError(f"{file}: {error}") from error


def _load(file: Path) -> dict[str, Any]:
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UsageError(
            f"{file}: no such file; expected a Hugging Face config.json: check the path, or use a preset name"
        ) from None
    except OSError as error:
        raise UsageError(f"{file}: cannot be read ({error.strerror}); expected a readable config.json") from error
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{file}: byte {error.start} is not UTF-8; expected a JSON text file: is this the config.json "
            "and not the weights?"
        ) from error
    try:
        fields = json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(
            f"{file}: line {error.lineno}, column {error.colno}: {error.msg}; expected JSON: download the "
            "file again or mend it there"
        ) from error
    except RecursionError:
        raise UsageError(f"{file}: nested too deeply to be a config.json; expected a JSON object") from None
    if not isinstance(fields, dict):
        raise UsageError(f"{file}: found a JSON {type(fields).__name__}; expected an object with the model's fields")
    return fields


def _require_supported(file: Path, fields: dict[str, Any]) -> _Architecture:
    if fields.get("is_encoder_decoder"):
        _refuse(file, "field 'is_encoder_decoder' is true: an encoder-decoder", "a decoder-only language model")
    names = fields.get("architectures")
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        state = f"is {names!r}" if "architectures" in fields else f"is missing; found {_listed(fields)}"
        _refuse(file, f"field 'architectures' {state}", f"a list with one of {', '.join(ARCHITECTURES)}")
    if names[0] not in ARCHITECTURES:
        what = (
            "a decoder that this engine does not build"
            if names[0].endswith(("ForCausalLM", "LMHeadModel"))
            else "not a decoder-only language model"
        )
        _refuse(file, f"field 'architectures' is {names[0]!r}: {what}", f"one of {', '.join(ARCHITECTURES)}")
    architecture = ARCHITECTURES[names[0]]
    for field in architecture.required:
        if field not in fields:
            _refuse(file, f"field {field!r} is missing; found {_listed(fields)}", f"it in the file of a {names[0]}")
    _require_built(file, fields)
    _require_full_attention(file, fields, architecture)
    return architecture


def _require_built(file: Path, fields: dict[str, Any]) -> None:
    for field, (accepted, meaning) in _CHANGES_THE_WORK.items():
        if fields.get(field) not in accepted:
            _refuse(
                file,
                f"field {field!r} is {_short(fields[field])}: {meaning}, which this engine does not build",
                f"the field absent or one of {', '.join(map(repr, accepted))}",
            )


def _require_full_attention(file: Path, fields: dict[str, Any], architecture: _Architecture) -> None:
    for kind in fields.get("layer_types") or ():
        if kind != "full_attention":
            _refuse(
                file,
                f"field 'layer_types' holds {_short(kind)}, which this engine does not build",
                "'full_attention' in every layer",
            )
    window = fields.get("sliding_window")
    if window is None:
        return
    if architecture.window_by_layer:
        if fields.get("layer_types") or not _flag(file, fields, "use_sliding_window"):
            return
        if _size(file, fields, "max_window_layers") >= _size(file, fields, "num_hidden_layers"):
            return
    _refuse(
        file,
        f"field 'sliding_window' is {_short(window)}: sliding-window attention, which this engine does not build",
        "null" + (", or 'use_sliding_window' false" if architecture.window_by_layer else ""),
    )


def _rope_fields(file: Path, fields: dict[str, Any]) -> dict[str, Any]:
    """`rope_parameters`, where newer versions of transformers keep rope_theta too, or else `rope_scaling`."""
    name = "rope_parameters" if fields.get("rope_parameters") is not None else "rope_scaling"
    rope = fields.get(name)
    if rope is None:
        return {}
    if not isinstance(rope, dict):
        _refuse(file, f"field {name!r} is {_short(rope)}", "an object or null")
    _require_built(file, {"partial_rotary_factor": rope.get("partial_rotary_factor")})
    return rope


def _rope_scaling(file: Path, rope: dict[str, Any]) -> Llama3RopeScaling | None:
    kind = rope.get("rope_type", rope.get("type", "default"))  # older files say "type"
    if kind == "default":
        return None
    if kind != "llama3":
        _refuse(
            file,
            f"the rope type is {_short(kind)}, whose angles this engine does not compute",
            "'default' or 'llama3' (angles change no work: without the field the iterations take the same time)",
        )
    names = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
    for name in names:
        if name not in rope:
            _refuse(file, f"the rope scaling lacks {name!r}; found {_listed(rope)}", f"all of {', '.join(names)}")
    return Llama3RopeScaling(*(rope[name] for name in names))


def _size(file: Path, fields: dict[str, Any], field: str) -> int:
    if field not in fields:
        _refuse(file, f"field {field!r} is missing; found {_listed(fields)}", "a whole number >= 1")
    value = fields[field]
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        _refuse(file, f"field {field!r} is {_short(value)}", "a whole number >= 1")
    return value


def _flag(file: Path, fields: dict[str, Any], field: str) -> bool:
    value = fields.get(field, False)
    if not isinstance(value, bool):
        _refuse(file, f"field {field!r} is {_short(value)}", "true or false")
    return value


def _refuse(file: Path, problem: str, expected: str) -> NoReturn:
    raise UsageError(
        f"{file}: {problem}; expected {expected}: use the config.json of a Llama or Qwen decoder, or a preset"
    )


def _listed(fields: dict[str, Any]) -> str:
    names = sorted(fields)
    more = f" and {len(names) - 12} more" if len(names) > 12 else ""
    return (", ".join(names[:12]) + more) or "no fields"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."

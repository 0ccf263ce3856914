#!/usr/bin/env bash
# One command on a machine with a GPU and no network: benchmarks/gpu_session.sh check profile
#
# Each stage is independent of the others, but for live, and takes under 9 minutes; results are flat files (at most 8 a
# stage) in $OUT, by default benchmarks/results/<GPU>. A part that fails or runs out of its time leaves what it had, and
# the next one begins. What is to hold is judged last, by benchmarks/gpu_summary.py.
#   check    kernel tests on the device (bf16 too), ceilings, operators as shares of the ceilings, attention against
#            SDPA, whole iterations against their floors
#   profile  llama-3-8b: measure, fit, certify, validate
#   live     the table of `profile` in $OUT at work: load curve, then policies in turns, at TPOT 10, 15 and 25 ms
#
# The machine's Python is taken to have torch, triton, numpy, scipy, pyarrow, nvidia-ml-py, typer, rich, pytest and
# hypothesis with what they need, and setuptools 77 or later. `make wheels`, before, fetches the rest for Python 3.12
# into wheels/ (pydantic and what it needs, lightgbm, numba); torch and triton are the machine's own.
set -uo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || { sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2; }
for stage in "$@"; do
  case $stage in
    check | profile | live) ;;
    *) echo "stage '$stage' is unknown; expected check, profile or live" >&2; exit 2 ;;
  esac
done
python=${PYTHON:-python3}
model=${MODEL:-llama-3-8b}

name='import re, torch; print(re.sub("[^a-z0-9]+", "-", torch.cuda.get_device_name().lower()).strip("-"))'
gpu=$("$python" -c "$name" 2>/dev/null) ||
  { echo "no CUDA device that torch can use: run chunkfit doctor" >&2; exit 3; }
if compgen -G "wheels/t*.whl" | grep -E '/(torch|triton)-' >&2; then
  echo "wheels/ holds torch or triton; expected the machine's own: remove them" >&2
  exit 2
fi
if compgen -G "wheels/*.whl" >/dev/null; then
  "$python" -m pip install --quiet --no-index --no-deps wheels/*.whl || exit 3
fi
"$python" -m pip install --quiet --no-index --no-deps --no-build-isolation --editable . || exit 3
out=${OUT:-benchmarks/results/$gpu}
mkdir -p "$out"
export PYTHONUNBUFFERED=1
worst=0
exec 3>&2 # what is said about a part stays out of its log

# part NAME SECONDS COMMAND...: ended like by Ctrl-C when its time is up, so that it writes what it has.
part() {
  local name=$1 seconds=$2 code
  shift 2
  timeout --foreground --signal=INT --kill-after=10 "$seconds" "$@"
  code=$?
  [ "$code" -eq 0 ] || { echo "$name: exit code $code" >&3; worst=1; }
  return "$code"
}
chunkfit=("$python" -c 'from chunkfit.cli.main import main; main()')

stage_check() { # 140 + 190 + 65 + 95 s
  rm -f "$out"/{check-tests.txt,microbench.json,attention_vs_sdpa.json,iteration_floors.json}
  # Interpreter and compiler are for machines without a GPU.
  part "check, tests" 140 "$python" -m pytest tests/engine/kernels tests/engine -q -m "not slow" -p no:cacheprovider \
    --ignore=tests/engine/test_interpreted_kernels.py --ignore=tests/engine/test_compiled_kernels.py \
    >"$out/check-tests.txt" 2>&1
  tail -n 15 "$out/check-tests.txt"
  part "check, microbench" 190 "${chunkfit[@]}" microbench --device cuda --model "$model" --minutes 2.5 \
    --out "$out/microbench.json"
  part "check, attention" 65 "$python" benchmarks/attention_vs_sdpa.py --device cuda --model "$model" --out "$out"
  part "check, floors" 95 "$python" benchmarks/iteration_floors.py --device cuda --model "$model" --out "$out"
}

stage_profile() { # 460 + 60 s
  local work
  rm -f "$out"/{profile.parquet,profile.parquet.journal.jsonl,table.json,table.csv,summary.json}
  work=$(mktemp -d)
  part "profile, run" 460 "${chunkfit[@]}" run --device cuda --model "$model" --minutes 5 --out "$work/run"
  # Without a profile there is its journal.
  cp "$work"/run/* "$out"/ 2>/dev/null
  if [ -e "$out/table.json" ]; then
    part "profile, validate" 60 "${chunkfit[@]}" validate "$out/table.json" --profile "$out/profile.parquet"
  fi
  rm -rf "$work"
}

stage_live() { # 3 x 175 s
  local work target
  rm -f "$out"/live-*.json
  if [ ! -e "$out/table.json" ]; then
    echo "live: no $out/table.json: run stage profile first" >&3
    worst=1
    return
  fi
  for target in 10 15 25; do
    work=$(mktemp -d)
    # The paper's static set, then what lies between and beyond. A part that is ended has its report so far.
    part "live, $target ms" 175 "${chunkfit[@]}" live "$out/table.json" --model "$model" --tpot "${target}ms" \
      --ttft 1.1s --workload mixed --check-simulator --curve-seconds 3 --seconds 6 --rounds 1 \
      --policy sloweave,full,fixed-64,fixed-256,fixed-1024,fixed-128,fixed-512,fixed-2048 \
      --curve-policy sloweave,fixed-256,fixed-1024 --out "$work" >"$work/said.txt"
    tail -n 60 "$work/said.txt"
    cp "$work/live.json" "$out/live-$target.json" 2>/dev/null
    rm -rf "$work"
  done
}

for stage in "$@"; do
  "stage_$stage"
done
"$python" benchmarks/gpu_summary.py "$out" || worst=1
exit $worst

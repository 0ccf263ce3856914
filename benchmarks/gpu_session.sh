#!/usr/bin/env bash
# One command on a machine with a GPU and no network: benchmarks/gpu_session.sh check profile
#
# Each stage is independent of the others and takes under 9 minutes; results are flat files (at most 8 a stage) in
# $OUT, by default benchmarks/results/<GPU>. What the machine's Python lacks is installed from wheels/, if there.
#   check    kernel tests on the device (bf16 too), ceilings, operators as shares of the ceilings
#   profile  llama-3-8b: measure, fit, certify, validate
set -uo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
python=${PYTHON:-python3}
model=${MODEL:-llama-3-8b}

if compgen -G "wheels/*.whl" >/dev/null; then
  "$python" -m pip install --quiet --no-index --no-deps wheels/*.whl || exit 3
fi
"$python" -m pip install --quiet --no-index --no-deps --no-build-isolation --editable . || exit 3
gpu=$("$python" -c 'import re, torch; print(re.sub("[^a-z0-9]+", "-", torch.cuda.get_device_name().lower()).strip("-"))') ||
  { echo "no CUDA device that torch can use: run chunkfit doctor" >&2; exit 3; }
out=${OUT:-benchmarks/results/$gpu}
mkdir -p "$out"
chunkfit() { "$python" -c 'from chunkfit.cli.main import main; main()' "$@"; }
worst=0
note() { [ "$1" -eq 0 ] || { echo "stage $2: exit code $1" >&2; worst=1; }; }

stage_check() {
  "$python" -m pytest tests/engine/kernels tests/engine -q -m "not slow" -p no:cacheprovider 2>&1 |
    tee "$out/check-tests.txt" | tail -n 15
  note "${PIPESTATUS[0]}" "check, tests"
  chunkfit microbench --device cuda --model "$model" --minutes 3 --out "$out/microbench.json"
  note $? "check, microbench"
}

stage_profile() {
  local work
  work=$(mktemp -d)
  chunkfit run --device cuda --model "$model" --minutes 5 --out "$work/run"
  note $? profile
  cp "$work"/run/* "$out"/ 2>/dev/null
  chunkfit validate "$out/table.json" --profile "$out/profile.parquet"
  note $? "profile, validate"
  rm -rf "$work"
}

for stage in "$@"; do
  case $stage in
    check | profile) "stage_$stage" ;;
    *) echo "stage '$stage' is unknown; expected check or profile" >&2; exit 2 ;;
  esac
done
"$python" benchmarks/gpu_summary.py "$out"
note $? summary
exit $worst

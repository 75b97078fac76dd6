#!/usr/bin/env bash
# Builds ddpscope with other versions of LibTorch and runs samples there, correct ones and with each
# of their mistakes, linked with it and preloaded, on one rank and on two:
#   scripts/versions.sh [<version of the wheel>|newest]...
# Without arguments: the oldest that is supported, and the newest. Each has a folder of its own,
# build/torch-<version>, with the wheel in it. What is there already is left alone.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

targets="ddpscope ddpscope_preload ddpscope_cli ddpscope_digits_data"
for sample in digits gates loops; do
  targets+=" ddpscope_sample_$sample ddpscope_sample_${sample}_plain"
done
tests='^sample_(digits|gates|loops)(_plain)?(\.[a-z-]+)+\.[12]$'

pip_of_python() {
  PIP_USER=0 python3 -m pip "$@" --no-input --disable-pip-version-check
}

newest() { pip_of_python index versions torch 2>/dev/null | sed -n 's/^torch (\(.*\))$/\1/p'; }

# install <folder> <requirement>...: the files are used, never the Python code.
install() {
  pip_of_python install --quiet --root-user-action=ignore --no-compile --only-binary=:all: \
    --python-version 3.12 --implementation cp --target "$@"
}

# fetch <version> <folder>
fetch() {
  local part="$2.part"
  local needs
  [ ! -e "$2" ] || return 0
  rm -rf "$part"
  install "$part" --no-deps "torch==$1" || return
  # Without its GPU half, libtorch_cpu.so needs two libraries of CUDA, which older wheels name each
  # and newer ones as parts of the toolkit.
  needs=$(sed -n -e 's/^Requires-Dist: \(nvidia-cuda-\(runtime\|cupti\)[-a-z0-9]*==[^;]*\).*/\1/p' \
    -e 's/^Requires-Dist: cuda-toolkit\[.*\]\(==[^;]*\).*/cuda-toolkit[cudart,cupti]\1/p' \
    "$part"/torch-*.dist-info/METADATA)
  # shellcheck disable=SC2086
  install "$part" $needs || return
  mv "$part" "$2"
}

# try <version>
try() {
  local folder="$PWD/build/torch-$1"
  fetch "$1" "$folder/wheel" || return
  export DDPSCOPE_TORCH_DIR="$folder/wheel/torch"
  # shellcheck source=scripts/setup.sh
  source scripts/setup.sh || return
  # shellcheck disable=SC2086
  cmake --preset dev -B "$folder" -DDDPSCOPE_TORCH_DIR="$DDPSCOPE_TORCH_DIR" -DDDPSCOPE_CUDA=OFF \
    -DDDPSCOPE_BENCHMARKS=OFF &&
    cmake --build "$folder" --parallel "$(ddpscope_jobs)" --target $targets &&
    ctest --test-dir "$folder" --no-tests=error --parallel 2 --output-on-failure -R "$tests"
}

[ $# -gt 0 ] || set -- 2.8.0 newest
status=0
results=
for version in "$@"; do
  [ "$version" != newest ] || version=$(newest)
  result=passed
  (try "$version") || result=failed
  [ $result = passed ] || status=1
  results+="LibTorch $version: $result"$'\n'
done
printf '%s' "$results"
exit $status

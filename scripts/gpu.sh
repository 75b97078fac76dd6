#!/usr/bin/env bash
# On a machine with a GPU: builds and runs its tests, runs the kernels under compute-sanitizer, and
# times them. The test of training and the comparison with LibTorch's own operators also need a
# LibTorch for CUDA (DDPSCOPE_TORCH_DIR), and are skipped without. Stops where something fails.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$ddpscope_root"

ddpscope_build_preset dev --target gpu_tests device_operators device_peers
for tool in memcheck racecheck synccheck; do
  for test in clip norm; do
    echo "== $tool, $test"
    compute-sanitizer --tool "$tool" --error-exitcode 1 \
      "build/dev/tests/ops/device/gpu_${test}_test"
  done
done
for benchmark in device_operators device_peers; do
  echo "== $benchmark"
  "build/dev/benchmarks/ops/$benchmark" || test $? -eq 77
done

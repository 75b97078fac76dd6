#!/usr/bin/env bash
# Sets up, builds, trains the digits sample with one planted mistake on two ranks under ddpscope,
# and shows the report. Succeeds when the mistake was found.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$ddpscope_root"

ddpscope_build --target ddpscope ddpscope_preload ddpscope_cli ddpscope_sample_digits \
  ddpscope_digits_data

report="$ddpscope_root/build/demo"
sample="build/dev/samples/digits"
rm -rf "$report"
# A finding ends `run` with 1: what was found is judged below.
build/dev/bin/ddpscope run --nproc 2 --out "$report" -- \
  "$sample/digits" --data "$sample/data" --steps 24 --bug unregistered-blocks || true

if ! grep -q '"id": *"module-unregistered"' "$report/report.json"; then
  echo "demo: the planted mistake was not found" >&2
  exit 1
fi
echo "HTML report: $report/report.html"

#!/usr/bin/env bash
# run_preloaded.sh LIBRARY PROGRAM ARGUMENT...: PROGRAM with LIBRARY before it, reporting into a
# folder that goes with it.
set -euo pipefail
library=$1
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
DDPSCOPE="console=quiet:report_dir=$folder/report" DDPSCOPE_TEST_REPORT="$folder/report" \
  LD_PRELOAD=$library "$@"

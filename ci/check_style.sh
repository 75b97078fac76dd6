#!/usr/bin/env bash
# Refuses code that clang-format 14 would write differently and a .clang-tidy that lost checks.
# Usage: check_style.sh [<root> [<build folder> <base commit>]]; with the last two clang-tidy 14
# also judges every .cpp file that differs from the base and that the build folder compiles.
set -euo pipefail

ci="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "${1:-$ci/..}" && pwd)"
build="${2:-}"
base="${3:-}"

# What .clang-tidy must enable: a lost comma joins two names, and both are silently gone.
expected_checks=(
  bugprone-infinite-loop bugprone-sizeof-expression bugprone-unhandled-self-assignment
  bugprone-use-after-move performance-for-range-copy performance-move-const-arg
  performance-unnecessary-copy-initialization misc-definitions-in-headers
  misc-redundant-expression misc-unused-using-decls modernize-use-nullptr modernize-use-override
  readability-container-size-empty readability-identifier-naming
  readability-redundant-control-flow readability-simplify-boolean-expr)
expected_count=83

refused=0
refuse() {
  echo "$1"
  refused=$((refused + 1))
}

broken() {
  echo "check_style: error: $1" >&2
  exit 2
}

tool() {
  local name
  name="$(command -v "$1-14" || command -v "$1")" || broken "$1 14 is missing"
  "$name" --version | grep -q 'version 14\.' || broken "$name is not version 14"
  echo "$name"
}

check_format() {
  local format output
  format="$(tool clang-format) --style=file --dry-run --Werror"
  if ! output="$(cd "$root" && $format "${sources[@]}" 2>&1)"; then
    grep -E 'error:' <<<"$output" || echo "$output"
    refuse "check_style: run clang-format -i over the files above"
  fi
}

check_tidy_list() {
  local tidy enabled check
  tidy="$(tool clang-tidy)"
  enabled="$("$tidy" --config-file="$root/.clang-tidy" --list-checks 2>&1 | sed 's/^ *//')"
  for check in "${expected_checks[@]}"; do
    grep -qx "$check" <<<"$enabled" || refuse ".clang-tidy: $check is not enabled"
  done
  local count
  count="$(grep -c -- - <<<"$enabled")"
  [ "$count" -eq "$expected_count" ] ||
    refuse ".clang-tidy: $count checks are enabled, $expected_count are expected"
}

check_tidy() {
  local tidy file
  tidy="$(tool clang-tidy)"
  [ -f "$build/compile_commands.json" ] || broken "$build has no compile_commands.json"
  while read -r file; do
    grep -qF "/$file\"" "$build/compile_commands.json" || continue
    (cd "$root" && "$tidy" --quiet -p "$build" "$file" 2>/dev/null) ||
      refuse "$file: clang-tidy has findings"
  done < <(git -C "$root" diff --name-only --diff-filter=d "$base" -- '*.cpp')
}

mapfile -t sources < <(python3 -B "$ci/source_files.py" "$root" .h .cpp .c .cu .cuh)
if [ "${#sources[@]}" -eq 0 ] || [ -z "${sources[0]}" ]; then
  broken "read nothing"
fi
check_format
check_tidy_list
if [ -n "$base" ]; then
  check_tidy
fi
echo "check_style: ${#sources[@]} read, $refused refused"
[ "$refused" -eq 0 ]

#!/usr/bin/env bash
# Sets up, builds and runs all tests; the last line counts them. Stops at the first stage that
# fails.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$ddpscope_root"

ddpscope_build

results="$ddpscope_root/build/dev/test-results.xml"
rm -f "$results"
status=0
ctest --test-dir build/dev --no-tests=error --parallel 2 --output-on-failure \
  --output-junit "$results" || status=$?

count() {
  sed -n '/<testsuite/,/>/p' "$results" | tr '\n' ' ' |
    sed -n "s/.*[[:space:]]$1=\"\([0-9]*\)\".*/\1/p"
}
skipped=$(($(count skipped) + $(count disabled)))
failed=$(count failures)
echo "$(($(count tests) - failed - skipped)) passed, $failed failed, $skipped skipped"
exit "$status"

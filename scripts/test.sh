#!/usr/bin/env bash
# Sets up, builds and runs all tests, then under AddressSanitizer and UBSan those that read files
# and stacks, follow memory to its end or clip, and under ThreadSanitizer those of the queue, the
# worker, the calls under way, the rings and the rank files; the last line counts them all. Stops
# when a build fails. With --empty-builds each build is emptied once its tests have run, which needs
# less disk.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$ddpscope_root"

empties_builds=no
if [ "${1:-}" = --empty-builds ]; then
  empties_builds=yes
  export CCACHE_DISABLE=1  # nobody builds there again
fi

passed=0
failed=0
skipped=0
status=0

# count <results> <attribute>
count() {
  sed -n '/<testsuite/,/>/p' "$1" | tr '\n' ' ' |
    sed -n "s/.*[[:space:]]$2=\"\([0-9]*\)\".*/\1/p"
}

# run_tests <preset> [<ctest option>...]
run_tests() {
  local results="$ddpscope_root/build/$1/test-results.xml"
  rm -f "$results"
  echo "== $1"
  ctest --test-dir "build/$1" --no-tests=error --parallel 2 --output-on-failure \
    --output-junit "$results" "${@:2}" || status=$?
  local not_run failures
  not_run=$(($(count "$results" skipped) + $(count "$results" disabled)))
  failures=$(count "$results" failures)
  passed=$((passed + $(count "$results" tests) - failures - not_run))
  failed=$((failed + failures))
  skipped=$((skipped + not_run))
}

# What reads and opens our reports and is not ours. Without it, its tests are skipped.
if [ -n "$(echo "chromium chromium" | ddpscope_missing)" ]; then
  ddpscope_install chromium || ddpscope_say "no Chromium: report_browser is skipped"
fi
.deps/readers/bin/python -c "import prometheus_client" 2> /dev/null || bash ci/install_readers.sh ||
  ddpscope_say "no readers: report_readers is skipped"

# leave <preset>: what was tested gives its files back, if that was asked for, or where the presets
# that follow might find no room.
leave() {
  local free_mib
  free_mib=$(($(df --output=avail -k build | tail -1) / 1024))
  [ "$empties_builds" = yes ] || [ "$free_mib" -lt 6144 ] || return 0
  ddpscope_say "build/$1 is emptied, with $free_mib MiB free"
  cmake --build "build/$1" --target clean > /dev/null
}

ddpscope_build
run_tests dev
leave dev
ddpscope_build_preset asan --target config_test records_test report_test stacks_test values_test \
  ring_test worker_test crash_signals_test fuzz_targets guest_lives clip_test norm_test
units='^(config|records|report|stacks|values|ring|worker|crash_signals|clip|norm)_test$|^fuzz\.'
guests='^(lifetimes|nonfinite_values|public_api|rough_ends|stale_tensors|survival)_test\.'
run_tests asan --tests-regex "$units|$guests"
leave asan
ddpscope_build_preset tsan --target model_test ring_test worker_test records_test
run_tests tsan --tests-regex '^(model|ring|worker|records)_test$'
echo "$passed passed, $failed failed, $skipped skipped"
exit "$status"

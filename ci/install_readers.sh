#!/usr/bin/env bash
# Installs what reads our report formats and is not ours into .deps/readers, where the test
# report_readers finds it. It takes part of no other test.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python3 -m venv .deps/readers
.deps/readers/bin/pip install --quiet --disable-pip-version-check \
  junitparser==5.0.3 prometheus-client==0.26.0 sarif-pydantic==0.6.2

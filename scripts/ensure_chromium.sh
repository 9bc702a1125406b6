#!/usr/bin/env bash
# Makes sure that a Chromium for the browser tests is there: DPCL_CHROMIUM, the system's, or the system's package.
set -euo pipefail
for candidate in "${DPCL_CHROMIUM:-}" /usr/bin/chromium /usr/bin/chromium-browser /usr/bin/google-chrome; do
  if [ -n "$candidate" ] && [ -x "$candidate" ]; then exit 0; fi
done
if ! command -v apt-get >/dev/null; then
  echo "No Chromium found: install one and name it in DPCL_CHROMIUM." >&2
  exit 1
fi
run() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
run apt-get update -qq
run env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null

#!/bin/sh
# Calls the interop server from a page in Chromium without a screen: run.sh ADDRESS FEATURE...
#
# Prints `ok FEATURE`, or `fails FEATURE: WHY`. The features are the functions of FEATURES in page.html. The server has to let
# pages of any origin call. CHROMIUM names the browser, if it is not one of those that are looked for.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
address=$1
shift
features=$(IFS=,; echo "$*")
for name in "${CHROMIUM:-}" chromium-headless-shell chromium chromium-browser google-chrome; do
    if [ -n "$name" ] && command -v "$name" >/dev/null; then
        browser=$name
        break
    fi
done
if [ -z "${browser:-}" ]; then
    echo "no Chromium is installed; apt-get install chromium-headless-shell" >&2
    exit 2
fi
profile=$(mktemp -d)
trap 'rm -rf "$profile"' EXIT
# A page of a file has no origin, so it stands for one from anywhere. Time passes for it only while it waits for nothing.
"$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$profile" --virtual-time-budget=60000 --dump-dom \
    "file://$here/page.html?address=$address&features=$features" 2>/dev/null |
    sed -n -e 's/.*<pre id="told">//' -e '/^end$/q' -e '/^\(ok\|fails\) /p'

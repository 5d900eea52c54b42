#!/usr/bin/env bash
# Prints the path of a Chromium, or of a browser made from it, by which the tests open Dagster's UI.
# Installs one with the system's package manager where that is allowed without asking; else says in
# one line what to install. With --look-only it installs nothing.
set -u

find_chromium() {
    local candidate
    for candidate in "${CHROMIUM:-}" chromium chromium-headless-shell chromium-browser \
        google-chrome-stable google-chrome \
        "/Applications/Chromium.app/Contents/MacOS/Chromium" \
        "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"; do
        if [ -n "$candidate" ] && command -v "$candidate"; then
            return 0
        fi
    done
    return 1
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

install_chromium() {
    if command -v apt-get; then
        as_root apt-get update && as_root apt-get install -y --no-install-recommends chromium-headless-shell ||
            as_root apt-get install -y --no-install-recommends chromium
    elif command -v dnf; then
        as_root dnf install -y chromium-headless || as_root dnf install -y chromium
    elif command -v brew; then
        brew install --cask chromium
    else
        return 1
    fi
}

find_chromium && exit 0
if [ "${1:-}" != --look-only ]; then
    echo "Chromium was not found; trying to install it" >&2
    install_chromium >&2 && find_chromium && exit 0
fi
echo "The tests of the UI need Chromium: install it (Debian: chromium-headless-shell or chromium, Fedora: chromium-headless, macOS: brew install --cask chromium), or set CHROMIUM to the path of one that is there" >&2
exit 1

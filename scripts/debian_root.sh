#!/usr/bin/env bash
# Runs a command in a newer Debian, with this folder and the same files in the home folder. Makes the
# Debian with debootstrap when it is first needed, in a folder that `DEBIAN_ROOT` names. Needs root.
#
#   DEBIAN_ROOT=/var/tmp/sid scripts/debian_root.sh make test-python PYTHON=python3.14
#   DEBIAN_ROOT=/var/tmp/sid scripts/debian_root.sh env JAVA_HOME=/usr/lib/jvm/java-8-openjdk-amd64 ...
set -euo pipefail

root=${DEBIAN_ROOT:?names the folder of the Debian}
packages=ca-certificates,make,python3.13-venv,python3.14-venv,openjdk-8-jdk-headless
packages+=,openjdk-11-jdk-headless,openjdk-21-jdk-headless

command -v debootstrap >/dev/null || { echo "install debootstrap first" >&2; exit 1; }
if [ ! -e "$root/complete" ]; then
    rm -rf "$root"
    debootstrap --variant=minbase --include="$packages" sid "$root" >&2
    touch "$root/complete"
fi

# The mounts end with this process.
exec unshare --mount --propagation private -- bash -c '
    set -euo pipefail
    root=$1 && shift
    for place in /proc /sys /dev /tmp /etc/ssl "$HOME" "$PWD"; do
        mkdir -p "$root$place" && mount --rbind "$place" "$root$place"
    done
    cp /etc/resolv.conf /etc/hosts "$root/etc/"
    exec chroot "$root" bash -c "cd \"\$0\" && exec \"\$@\"" "$PWD" "$@"
' _ "$root" "$@"

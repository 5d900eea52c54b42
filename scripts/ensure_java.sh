#!/usr/bin/env bash
# Prints the home of a Java 17 or newer, which Spark needs. Installs one with the system's package
# manager where that is allowed without asking; else says in one line what to install.
set -u

home_of() { # the Java home of a java command that is new enough
    "$1" -XshowSettings:properties -version 2>&1 | awk -F' = ' '
        /java.specification.version/ { version = $2 }
        /java.home/ { home = $2 }
        END { if (version + 0 >= 17) print home; else exit 1 }'
}

find_java() {
    local candidate
    for candidate in "${JAVA_HOME:-/nonexistent}/bin/java" "$(command -v java)" \
        /usr/lib/jvm/*/bin/java /opt/homebrew/opt/openjdk*/bin/java /usr/local/opt/openjdk*/bin/java; do
        if [ -x "$candidate" ] && home_of "$candidate"; then
            return 0
        fi
    done
    return 1
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

install_java() {
    if command -v apt-get; then
        as_root apt-get update && as_root apt-get install -y openjdk-17-jre-headless ||
            as_root apt-get install -y openjdk-21-jre-headless
    elif command -v dnf; then
        as_root dnf install -y java-21-openjdk-headless || as_root dnf install -y java-17-openjdk-headless
    elif command -v brew; then
        brew install openjdk@17
    else
        return 1
    fi
}

find_java && exit 0
echo "Java 17 or newer was not found; trying to install it" >&2
install_java >&2 && find_java && exit 0
echo "Spark needs Java 17 or newer: install it (Debian: openjdk-17-jre-headless, Fedora: java-21-openjdk-headless, macOS: brew install openjdk@17), or set JAVA_HOME to one that is there" >&2
exit 1

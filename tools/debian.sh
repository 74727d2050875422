# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=sh
#
# What quickstart.sh and check.sh share: getting what is missing from Debian's archive. To be sourced.

say() {
    printf '\n== %s\n' "$*"
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null 2>&1; then
        sudo "$@"
    else
        echo "cannot run '$*': not root, and sudo is not installed" >&2
        return 1
    fi
}

# Another program may be at the packages: up to ten minutes are waited for it.
apt() {
    tries=0
    until as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=600 "$@"; do
        tries=$((tries + 1))
        # (the lists have a lock of their own, which apt-get does not wait for)
        if [ "$1" != update ] || [ $tries -ge 20 ] || ! lists_are_locked; then
            return 1
        fi
        echo 'waiting for another apt-get' >&2
        sleep 30
    done
}

lists_are_locked() {
    command -v fuser >/dev/null 2>&1 && as_root fuser -s /var/lib/apt/lists/lock
}

is_installed() {
    [ "$(dpkg-query -W -f='${Status}' "$1" 2>/dev/null)" = 'install ok installed' ]
}

# Installs those of the named packages that are not there.
install_missing() {
    missing=''
    for package in "$@"; do
        is_installed "$package" || missing="$missing $package"
    done
    [ -n "$missing" ] || return 0
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "this system has no apt-get: please install what corresponds to$missing" >&2
        return 1
    fi
    say "installing with apt:$missing"
    apt update
    # shellcheck disable=SC2086 # a list of names
    apt install -y --no-install-recommends $missing
}

is_in_archive() {
    [ -n "$(apt-cache show "$1" 2>/dev/null)" ]
}

# Installs the named package if the archive has it, or else says that what needs it will be skipped.
install_available() {
    if ! is_installed "$1" && command -v apt-get >/dev/null 2>&1 && ! is_in_archive "$1"; then
        apt update
    fi
    if is_installed "$1" || is_in_archive "$1"; then
        install_missing "$1"
    else
        say "the archive has no $1: tests that need it will be skipped"
    fi
}

# True where the OpenCL loader finds a driver.
has_opencl_driver() {
    [ -n "${OCL_ICD_VENDORS:-}${OCL_ICD_FILENAMES:-}" ] || ls /etc/OpenCL/vendors/*.icd >/dev/null 2>&1
}

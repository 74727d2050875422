#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Debian packages of what is committed, in build-debian/, and what lintian says of them: exit status 1 where that is an
# error or a warning.
#
#     tools/packaging/debian.sh [FOLDER]      another folder than build-debian
set -eu
cd "$(dirname "$0")/../.."
. tools/debian.sh

install_missing git dpkg-dev debhelper fakeroot lintian meson ninja-build pkg-config python3 ocl-icd-opencl-dev \
    opencl-c-headers libclblast-dev libxxhash-dev libjansson-dev
folder=${1:-build-debian}
version=$(python3 tools/version.py include/clattn/version.h)
source=$folder/clattn-$version
rm -rf "$source" "$folder"/*.deb "$folder"/clattn_*
mkdir -p "$source"
git archive HEAD | tar -C "$source" -xf -
tar -C "$folder" -cJf "$folder/clattn_$version.orig.tar.xz" "clattn-$version"
cp -R tools/packaging/debian "$source/debian"
(cd "$source" && dpkg-buildpackage --no-sign --build=full)
say 'what lintian says'
# (nothing was released, no bug asks for a package, and who uploads one puts an address in)
lintian --allow-root --fail-on error,warning --suppress-tags \
    bad-distribution-in-changes-file,initial-upload-closes-no-bugs,bogus-mail-host,bogus-mail-host-in-debian-changelog \
    "$folder"/*.changes
ls -l "$folder"/*.deb

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Makes a Debian package of a build, unpacks it, and runs what is in it.
#   deb.sh path/to/build path/to/scratch
set -eu
build=${1:?usage: deb.sh path/to/build path/to/scratch}
scratch=${2:?usage: deb.sh path/to/build path/to/scratch}
rm -rf "$scratch"
mkdir -p "$scratch"
(cd "$build" && cpack -G DEB -B "$scratch")
package=$(ls "$scratch"/*.deb)
dpkg-deb -x "$package" "$scratch/root"
depends=$(dpkg-deb -f "$package" Depends)
case $depends in
  *libc6*libstdc++6*) ;;
  *) echo "depends on: $depends" >&2; exit 1 ;;
esac

# The command finds the library that is packaged with it, and nothing is looked for in the current directory.
convt=$scratch/root/usr/bin/convt
readelf -d "$convt" | sed -n 's/.*(RUNPATH).*\[\(.*\)\].*/\1/p' | tr ':' '\n' >"$scratch/runpath"
if ! grep -q 'ORIGIN' "$scratch/runpath" || grep -qv '^\$ORIGIN' "$scratch/runpath"; then
  echo "RUNPATH: $(cat "$scratch/runpath")" >&2
  exit 1
fi
version=$("$convt" version)
[ "convt $(dpkg-deb -f "$package" Version)" = "$version" ] || { echo "it is $version" >&2; exit 1; }
for file in "$convt" "$scratch"/root/usr/lib*/libconvt.so; do
  readelf -d "$file" | grep -q BIND_NOW || { echo "$file: not BIND_NOW" >&2; exit 1; }
  readelf -lW "$file" | grep -q GNU_RELRO || { echo "$file: not RELRO" >&2; exit 1; }
done
nm -D "$scratch"/root/usr/lib*/libconvt.so | grep -q __stack_chk_fail || { echo 'no stack protector' >&2; exit 1; }
echo "$package depends on: $depends"

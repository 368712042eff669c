#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The shared library exports the C ABI and nothing else, needs nothing but the C and C++ runtimes, and has no static that
# fork() could leave locked.
#   symbols.sh path/to/libconvt.so OBJECT-OR-ARCHIVE...    the library's own, without what nvcc makes of kernels
set -eu
export LC_ALL=C

library=${1:?usage: symbols.sh path/to/libconvt.so OBJECT-OR-ARCHIVE...}
shift
failures=0

# Lines of nm are "[address] type name[@@version]"; type A is the version's own tag.
exported=$(nm -D --defined-only "$library" | awk '$(NF-1) != "A" { print $NF }')
for symbol in $exported; do
  case $symbol in
    convt_*) ;;
    *) echo "exported, but not convt_*: $symbol" >&2; failures=$((failures + 1)) ;;
  esac
done
count=$(printf '%s\n' "$exported" | grep -c '^convt_' || true)
if [ "$count" -eq 0 ]; then
  echo "no convt_* symbol is exported" >&2
  failures=$((failures + 1))
fi

needed=$(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\].*/\1/p')
for name in $needed; do
  case $name in
    libstdc++.so.* | libm.so.* | libgcc_s.so.* | libc.so.* | libdl.so.* | ld-linux*.so.*) ;;
    *) echo "needs a library beyond the C and C++ runtimes: $name" >&2; failures=$((failures + 1)) ;;
  esac
done

if ! readelf -d "$library" | grep -q '(SONAME).*\[libconvt\.so\.[0-9]'; then
  echo "has no versioned SONAME" >&2
  failures=$((failures + 1))
fi

# A guarded static that another thread is just making stays locked for ever in a child of fork(). nvcc's stubs keep the
# handles of kernels so: a process that has launched one cannot fork and launch in any case.
if nm --undefined-only "$@" 2>/dev/null | grep -q '__cxa_guard_acquire'; then
  echo "has function-local statics that are made at run time: use core::Lazy, or constants" >&2
  failures=$((failures + 1))
fi

[ "$failures" -eq 0 ] || exit 1
echo "$count symbols exported, all convt_*; needs only: $(echo $needed)"

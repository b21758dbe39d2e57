#!/usr/bin/env bash
# Packs the Debian packages of Heliograph's build, so that a machine with CUDA, CMake and a C++
# compiler but without a package registry can build it (scripts/gpu_check.sh). The machine needs the
# same processor family, and a C library and libstdc++ at least as new as MANIFEST names, which
# gpu_check.sh checks.
# Usage: scripts/make_gpu_bundle.sh [FILE.tar.xz]   (default: build/gpu_bundle.tar.xz)
set -euo pipefail
target=$(realpath -m "${1:-$(dirname "${BASH_SOURCE[0]}")/../build/gpu_bundle.tar.xz}")
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

packages=(libcli11-dev libeigen3-dev libfmt-dev libgmock-dev libgtest-dev libhwy-dev
          libmetis-dev libsodium-dev libxxhash-dev libzip-dev nlohmann-json3-dev zlib1g-dev)
most_bytes=60000000

missing=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
    missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  echo "make_gpu_bundle.sh: not installed: ${missing[*]} (scripts/install_dependencies.sh)" >&2
  exit 2
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
root=$folder/gpu_bundle
mkdir -p "$root"

# Headers, libraries and CMake's files refer to each other by their paths below usr/.
say "Copying ${#packages[@]} packages"
dpkg -L "${packages[@]}" | grep -E '^/usr/(include|share/(cmake|eigen3|nlohmann_json)|lib/[^/]+)/' |
  grep -vE '/(pkgconfig|doc)/' | sort -u | while read -r path; do
  if [ -f "$path" ] || [ -L "$path" ]; then
    install -D -m 644 /dev/null "$root$path"
    cp -P --remove-destination "$path" "$root$path"
  fi
done

# Debian has no static METIS, libzip or Highway, so the bundle has their shared libraries, with all
# dependencies except the system's own.
libraries=$root/usr/lib/bundled
mkdir -p "$libraries"
find "$root/usr/lib" -name 'lib*.so' | while read -r link; do
  own=${link#"$root"}
  { readlink -f "$own"; ldd "$own" | awk '$2 == "=>" { print $3 }'; }
done | sort -u | grep -vE '/(libc|libm|libdl|libpthread|librt|libstdc\+\+|libgcc_s|ld-linux[^/]*)\.so' |
while read -r library; do
  name=$(objdump -p "$library" | awk '$1 == "SONAME" { print $2 }')
  cp -L "$library" "$libraries/$name"
done
find "$root/usr/lib" -name 'lib*.so' -type l | while read -r link; do
  name=$(objdump -p "${link#"$root"}" | awk '$1 == "SONAME" { print $2 }')
  ln -sfr "$libraries/$name" "$link"
  # A package's CMake files look for the library under its full version.
  ln -sfr "$libraries/$name" "$(dirname "$link")/$(basename "$(readlink -f "${link#"$root"}")")"
done

arch=$(basename "$(dirname "$(find "$root/usr/lib" -name libmetis.so)")")
cat >"$root/cache.cmake" <<EOF
# For cmake -C: every package comes from this folder.
set(bundle_usr \${CMAKE_CURRENT_LIST_DIR}/usr)
set(bundle_lib \${bundle_usr}/lib/$arch)
foreach(package metis hwy sodium zip z xxhash)
  set(\${package}_INCLUDE_DIR \${bundle_usr}/include CACHE PATH "")
endforeach()
foreach(package metis hwy sodium zip z)
  set(\${package}_LIBRARY \${bundle_lib}/lib\${package}.so CACHE FILEPATH "")
endforeach()
set(xxhash_LIBRARY \${bundle_lib}/libxxhash.a CACHE FILEPATH "")
EOF
for package in Eigen3 nlohmann_json CLI11 fmt GTest; do
  file=$(find "$root/usr" -iname "${package}Config.cmake" -o -iname "${package}-config.cmake")
  folder_of=$(dirname "${file#"$root/usr/"}")
  echo "set(${package}_DIR \${bundle_usr}/$folder_of CACHE PATH \"\")" >>"$root/cache.cmake"
done
cat >>"$root/cache.cmake" <<'EOF'
# The dependencies of the bundled libraries are beside them.
set(CMAKE_EXE_LINKER_FLAGS
    "-Wl,--disable-new-dtags,-rpath,${bundle_usr}/lib/bundled,-rpath-link,${bundle_usr}/lib/bundled"
    CACHE STRING "")
EOF

# A program linked from the static libraries shows the versions of symbols that they need.
find "$root/usr/lib" -name 'lib*.a' ! -name '*_main.a' -print0 |
  xargs -0 sh -c 'echo "int main() {}" | c++ -x c++ - -x none -o "$0" -Wl,--whole-archive "$@" \
    -Wl,--no-whole-archive -pthread' "$folder/static"
newest() {  # SYMBOL_FAMILY: prints the newest version of it that a bundled library needs
  { objdump -T "$libraries"/* "$folder/static"; } 2>/dev/null | grep -oE "\b$1_[0-9.]+" | sort -Vu | tail -n 1
}
{
  echo "machine $(uname -m)"
  echo "libc $(newest GLIBC | cut -d_ -f2)"
  echo "libstdc++ $(newest GLIBCXX | cut -d_ -f2)"
  dpkg-query -W -f '${Package} ${Version}\n' "${packages[@]}"
} >"$root/MANIFEST"

say "Packing"
mkdir -p "$(dirname "$target")"
tar -C "$folder" --sort=name --owner=0 --group=0 --numeric-owner -cJf "$target" gpu_bundle
bytes=$(stat -c %s "$target")
cat "$root/MANIFEST"
echo "$target: $bytes bytes"
if [ "$bytes" -gt "$most_bytes" ]; then
  echo "make_gpu_bundle.sh: the bundle has more than $most_bytes bytes" >&2
  exit 1
fi

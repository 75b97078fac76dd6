#!/usr/bin/env bash
# Installs what the build needs and fetches LibTorch to .deps/libtorch-<version>/torch.
# Run it, or source it; what is there already is left alone. DDPSCOPE_TORCH_DIR names another
# LibTorch.

ddpscope_root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
ddpscope_torch_version=2.11.0
# Without its GPU half, libtorch_cpu.so of the wheel needs these two CUDA libraries and no others.
ddpscope_wheels="torch==$ddpscope_torch_version"
ddpscope_wheels+=" nvidia-cuda-runtime==13.0.96 nvidia-cuda-cupti==13.0.85"

# Debian package, then the command or the header that shows it is there.
ddpscope_required="
g++ g++
cmake cmake
ninja-build ninja
python3 python3
libfmt-dev fmt/core.h
libspdlog-dev spdlog/spdlog.h
nlohmann-json3-dev nlohmann/json.hpp
libcli11-dev CLI/CLI.hpp
catch2 catch2/catch.hpp|catch2/catch_test_macros.hpp"
ddpscope_optional="
libdw-dev elfutils/libdwfl.h
ccache ccache
clang-format clang-format
libbenchmark-dev benchmark/benchmark.h
libpng-dev png.h
clang-tidy clang-tidy"

ddpscope_say() { echo "setup: $*" >&2; }

ddpscope_is_there() {
  local probe
  for probe in ${1//|/ }; do
    case $probe in
      *.h | *.hpp)
        echo "#include <$probe>" | g++ -std=c++20 -E -x c++ - >/dev/null 2>&1 && return 0 ;;
      *) command -v "$probe" >/dev/null && return 0 ;;
    esac
  done
  return 1
}

# Prints the packages of the table on stdin whose probe fails.
ddpscope_missing() {
  local package probe
  while read -r package probe; do
    [ -z "$package" ] || ddpscope_is_there "$probe" || echo "$package"
  done
}

ddpscope_install() {
  local sudo=""
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || return 1
    sudo="sudo"
  fi
  command -v apt-get >/dev/null || return 1
  ddpscope_say "installing $*"
  $sudo apt-get update -q >&2 || return 1
  $sudo env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -q --no-install-recommends "$@" >&2
}

ddpscope_packages() {
  local required optional
  required="$(echo "$ddpscope_required" | ddpscope_missing | xargs)"
  optional="$(echo "$ddpscope_optional" | ddpscope_missing | xargs)"
  # shellcheck disable=SC2086
  if [ -n "$required$optional" ] && ! ddpscope_install $required $optional && [ -n "$required" ] &&
    ! ddpscope_install $required; then
    ddpscope_say "the build needs these packages (names of Debian), which could not be installed:"
    ddpscope_say "  $required"
    return 1
  fi
}

ddpscope_version_of() {
  local header
  for header in headeronly/version.h version.h csrc/api/include/torch/version.h; do
    if [ -f "$1/include/torch/$header" ]; then
      sed -n 's/.*define TORCH_VERSION_\(MAJOR\|MINOR\|PATCH\) *\([0-9]*\).*/\2/p' \
        "$1/include/torch/$header" | paste -sd.
      return
    fi
  done
}

# The folder holds a LibTorch whose CPU library finds all it needs.
ddpscope_torch_is_whole() {
  [ -f "$1/include/ATen/ATen.h" ] && [ -f "$1/lib/libtorch_cpu.so" ] &&
    [ -n "$(ddpscope_version_of "$1")" ] && ! ldd "$1/lib/libtorch_cpu.so" | grep -q 'not found'
}

ddpscope_named_torch() {
  local version
  if ! ddpscope_torch_is_whole "$DDPSCOPE_TORCH_DIR"; then
    ddpscope_say "DDPSCOPE_TORCH_DIR=$DDPSCOPE_TORCH_DIR is no complete LibTorch folder:" \
      "include/ATen/ATen.h, lib/libtorch_cpu.so and the libraries it needs are expected"
    return 1
  fi
  version="$(ddpscope_version_of "$DDPSCOPE_TORCH_DIR")"
  if [ "$(printf '%s\n' 2.8 "$version" | sort -V | head -1)" != 2.8 ]; then
    ddpscope_say \
      "DDPSCOPE_TORCH_DIR=$DDPSCOPE_TORCH_DIR is LibTorch $version; 2.8 or newer is needed"
    return 1
  fi
  ddpscope_say "using LibTorch $version in $DDPSCOPE_TORCH_DIR"
}

# Fetched under a temporary name and renamed when whole: what has the final name is complete.
ddpscope_fetch_torch() {
  local target="$ddpscope_root/.deps/libtorch-$ddpscope_torch_version"
  local part="$target.part"
  if [ "$(cat "$target/stamp" 2>/dev/null)" = "$ddpscope_wheels" ]; then
    return 0
  fi
  if [ ! -e "$target/stamp" ] && ddpscope_torch_is_whole "$target/torch" &&
    [ "$(ddpscope_version_of "$target/torch")" = "$ddpscope_torch_version" ]; then
    echo "$ddpscope_wheels" >"$target/stamp"
    return 0
  fi
  if ! python3 -m pip --version >/dev/null 2>&1 && ! ddpscope_install python3-pip; then
    ddpscope_say "LibTorch is fetched with pip: install the package python3-pip," \
      "or name a LibTorch folder in DDPSCOPE_TORCH_DIR"
    return 1
  fi
  ddpscope_say "fetching LibTorch $ddpscope_torch_version (1.2 GB unpacked)"
  rm -rf "$part"
  # The files are used, never the Python code, so the wheel's Python need not be this one.
  # shellcheck disable=SC2086
  if ! PIP_USER=0 python3 -m pip install --quiet --no-input --disable-pip-version-check \
    --root-user-action=ignore --no-deps --no-compile --only-binary=:all: \
    --python-version 3.11 --implementation cp --target "$part" $ddpscope_wheels >&2; then
    ddpscope_say "pip could not fetch LibTorch $ddpscope_torch_version; fetch it by hand and name" \
      "its folder in DDPSCOPE_TORCH_DIR"
    return 1
  fi
  if ! ddpscope_torch_is_whole "$part/torch"; then
    ddpscope_say "the LibTorch in $part does not find all its libraries"
    return 1
  fi
  echo "$ddpscope_wheels" >"$part/stamp"
  rm -rf "$target"
  mv "$part" "$target"
}

ddpscope_setup() {
  ddpscope_packages || return 1
  if [ -n "${DDPSCOPE_TORCH_DIR:-}" ]; then
    ddpscope_named_torch
    return
  fi
  mkdir -p "$ddpscope_root/.deps" || return 1
  (
    flock 9
    ddpscope_fetch_torch
  ) 9>"$ddpscope_root/.deps/lock"
}

# One compiler of a file that includes LibTorch takes 1.5 GB.
ddpscope_jobs() {
  local by_memory
  by_memory=$(($(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo) / 1800000))
  local jobs
  jobs=$(nproc)
  [ "$by_memory" -ge "$jobs" ] || jobs=$by_memory
  [ "$jobs" -ge 1 ] || jobs=1
  echo "$jobs"
}

# ddpscope_build_preset <preset> [--target <target>...]: everything, or what is named. A compiler
# that found no memory beside others has it for itself the second time.
ddpscope_build_preset() {
  (cd "$ddpscope_root" && cmake --preset "$1" &&
    { cmake --build --preset "$1" --parallel "$(ddpscope_jobs)" "${@:2}" ||
      { ddpscope_say "once more, one file at a time" &&
        cmake --build --preset "$1" --parallel 1 "${@:2}"; }; })
}
ddpscope_build() { ddpscope_build_preset dev "$@"; }

ddpscope_setup

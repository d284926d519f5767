#!/bin/sh
# Builds the C consumer with what pkg-config says of an installed tree, and runs it.
# usage: build_and_run.sh COMPILER PKG_CONFIG INSTALLED_TREE DLPACK_INCLUDE_DIR
set -eu
compiler=$1 pkg_config=$2 installed=$3 dlpack=$4
PKG_CONFIG_PATH=$(dirname "$(find "$installed" -name twinops.pc)")
export PKG_CONFIG_PATH
libdir=$("$pkg_config" --variable=libdir twinops)
program=$(mktemp)
trap 'rm -f "$program"' EXIT
# shellcheck disable=SC2046  # words are meant
"$compiler" "$(dirname "$0")/../c/main.c" -I"$dlpack" $("$pkg_config" --cflags --libs twinops) \
  -Wl,-rpath,"$libdir" -o "$program"
"$program"

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# ./dev: what counts as a missing package, and the last line of ./dev test. Its functions alone, with commands that are made up here.
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# function_of NAME: as ./dev has it
function_of() {
	sed -n "/^$1() {/,/^}/p" "$SOURCE/dev"
}
eval "$(function_of have_instead)"
eval "$(function_of missing_packages)"
eval "$(function_of last_line)"

same() {
	[ "$1" = "$2" ] || { echo "$3: '$1', expected '$2'" && exit 1; }
}

mkdir "$scratch/bare" "$scratch/node"
for name in sed grep; do
	ln -s "$(command -v "$name")" "$scratch/bare/$name"
done
printf '#!/bin/sh\necho installed meson\n' >"$scratch/bare/dpkg-query"
for name in node npm; do
	printf '#!/bin/sh\n' >"$scratch/node/$name"
done
chmod +x "$scratch/bare/dpkg-query" "$scratch"/node/*
# missing PATH PACKAGE...
missing() {
	PATH=$1
	shift
	missing_packages "$@"
}
nothing=$(missing "$scratch/bare" meson nodejs npm)
elsewhere=$(missing "$scratch/bare:$scratch/node" meson nodejs npm gnuplot-nox)
same "$nothing" 'nodejs npm ' 'without node and npm'
same "$elsewhere" 'gnuplot-nox ' 'with those of somewhere else'
same "$(sed -n '/^BUILD_PACKAGES=/,/"$/p' "$SOURCE/dev" | tr -d '"' | tr -s ' \t' '\n' | grep -cx -e nodejs -e npm)" 2 'the page is built with every build'

# shellcheck disable=SC2034 # what last_line reads
passed=3 failed=0 skipped=0
same "$(last_line)" '3 passed, 0 failed' 'nothing skipped'
# shellcheck disable=SC2034
skipped=2
same "$(last_line)" '3 passed, 0 failed, 2 skipped' 'two skipped'

# Which tests a word names, and what they need.
mkdir -p "$scratch/build/meson-info"
cat >"$scratch/build/meson-info/intro-tests.json" <<'END'
[{"name": "unit base wheel", "suite": ["weir:unit"], "depends": ["a@exe"]}, {"name": "fuzz wheel", "suite": ["weir:fuzz"], "depends": ["b@exe"]},
 {"name": "sim wheel at length", "suite": ["weir:long"], "depends": ["c@exe"]}, {"name": "scenario dev", "suite": ["weir:scenario"], "depends": []}]
END
printf '[{"id": "a@exe", "filename": ["%s/x/wheel"]}, {"id": "b@exe", "filename": ["%s/replay"]}, {"id": "c@exe", "filename": ["%s/sim"]}]' \
	"$scratch/build" "$scratch/build" "$scratch/build" >"$scratch/build/meson-info/intro-targets.json"
# of WORDS...: one a word
of() {
	"$SOURCE/tools/tests-of" "$scratch/build" "$@" | tr '\n' ','
}
same "$(of names wheel)" 'unit base wheel,fuzz wheel,' 'tests of a name, but for those of minutes'
same "$(of targets wheel)" 'x/wheel,replay,' 'what they need'
same "$(of targets --suite long --suite fuzz)" 'replay,sim,' 'tests of suites'
same "$(of names nosuch)" ',' 'no test'
same "$(of targets dev)" '' 'a script needs nothing'

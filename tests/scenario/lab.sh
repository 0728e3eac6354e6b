#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The lab: its own code with fixed data; then its list, an experiment that needs nothing but `weir sim`, and one that needs what is not there.
set -u
cd "$SOURCE" || exit 1
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
for part in lib rules webmail; do
	python3 "tests/scenario/lab_$part.py" || exit 1
done

build=$(dirname "$WEIR")
failures=0
fail() {
	printf '%s\n' "$*"
	failures=$((failures + 1))
}

lab/run list --build "$build" >"$tmp/list" || fail "lab/run list failed"
for folder in lab/*/experiment.py; do
	name=${folder#lab/}
	name=${name%/experiment.py}
	grep -q "^$name  *[0-9.]* min  ." "$tmp/list" || fail "lab/run list does not show $name"
	[ -f "lab/$name/README.md" ] || fail "lab/$name has no README"
	grep -q "^| \`$name\` |" docs/lab.md || fail "docs/lab.md does not tell about $name"
done

lab/run aoc-07-controller --quick --build "$build" --results "$tmp/results" --summary "$tmp/lab.md" >"$tmp/out" 2>&1 || fail "the experiment failed: $(cat "$tmp/out")"
grep -qE '^aoc-07-controller +(holds|holds in part|does not hold here), ' "$tmp/out" || fail "no verdict: $(cat "$tmp/out")"
[ -e "$tmp/lab.md" ] && fail "a quick run has written the summary"
python3 - "$tmp/results" <<'END' || fail "the page is not as it should be"
import html.parser, json, sys
text = open(f"{sys.argv[1]}/aoc-07-controller/index.html", encoding="utf-8").read()
for expected in ("<h1>AOC figure 7", "paper, aimd", "ours, aimd, simulated", "How the verdict comes about", "class=\"verdict"):
    assert expected in text, expected
assert json.load(open(f"{sys.argv[1]}/aoc-07-controller/data.json"))["mode"] == "quick"
assert "aoc-07-controller/index.html" in open(f"{sys.argv[1]}/index.html", encoding="utf-8").read()
END
# The same from the stored data.
cp "$tmp/results/aoc-07-controller/index.html" "$tmp/first.html"
lab/run aoc-07-controller --again --build "$build" --results "$tmp/results" --summary "$tmp/lab.md" >/dev/null 2>&1 || fail "--again failed"
cmp -s "$tmp/results/aoc-07-controller/index.html" "$tmp/first.html" || fail "--again shows another page"

# What needs something that is not there is skipped, and says so.
lab/run seda-08-threads --quick --build "$tmp" --results "$tmp/results" --summary "$tmp/lab.md" >"$tmp/out" 2>&1 || fail "a skipped experiment is a failure"
grep -q '^seda-08-threads  *skipped: needs lab/programs/pool: not built' "$tmp/out" || fail "no reason: $(cat "$tmp/out")"
lab/run nosuch >/dev/null 2>&1 && fail "an experiment that does not exist is no failure"
exit $((failures > 0))

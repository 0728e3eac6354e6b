#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# weir sim: what it shows, in which forms, that it repeats to the byte, and what it says to wrong input.
set -u
cd "$SOURCE" || exit 1
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT

verb=sim
# shellcheck source=tests/scenario/expect.sh
. "$SOURCE/tests/scenario/expect.sh"

cat >"$tmp/small.sim" <<'END'
[scenario]
title    = A small one
duration = 20s
[stage web]
service = exponential 10ms
law     = aimd
p90     = 200ms
[load crowd]
rate = 0.7x, 10s 1.4x
END
small=$tmp/small.sim

expect 0 '^usage: weir sim' --help
expect 0 '^A small one$' "$small"
expect 0 '  aimd, 20.0s simulated, measured from 0, seed 1' "$small"
expect 0 '^  all ' "$small"
expect 0 "^  work       completed .* of what 'web' can do" "$small"
expect 0 'seed 5$' "$small" --seed 5
expect 0 '  none, 20.0s' "$small" --law none
expect 0 'offered/s' --set scenario.duration=1s "$small"
expect 0 '^  none ' "$small" --compare none,aimd
expect 0 '^  aimd ' "$small" --compare none,aimd
expect 0 '^    worst ' "$small" --seeds 3
expect 0 'seeds 4 to 6$' "$small" --seeds 3 --seed 4
expect 0 'step-1.4x.sim  *A step to 1.4 times' --list
expect 0 'small.sim  *A small one' --list "$tmp"
expect 0 '^aimd$' --laws
expect 0 '^    target  *time  *1us to 1h' --laws

expect 2 'name a scenario'
expect 2 "unexpected argument '--frobnicate'" --frobnicate
expect 2 '--law: its value is missing' "$small" --law
expect 2 "unexpected argument 'more'" "$small" more
expect 2 'exclude each other' "$small" --json --csv
expect 2 'exclude each other' "$small" --law aimd --compare aimd,none
expect 2 "there is no law 'nope'; accepted are none, " "$small" --law nope
expect 2 "there is no law 'nope'" "$small" --compare aimd,nope
expect 2 "--seed: '0': must be from 1 to 4294967295" "$small" --seed 0
expect 2 "--seeds: 'many'.*whole number" "$small" --seeds many
expect 2 'NAME.KEY=VALUE' "$small" --set nonsense
expect 2 "no 'wob' to be set" "$small" --set wob.workers=3
expect 0 '^  all ' lab/sim/aoc-09-types.sim --set users.users=16 --set scenario.duration=20s --set scenario.warmup=0s
expect 2 'as set on the command line: closed users need' lab/sim/aoc-09-types.sim --set users.rate=16
expect 2 "as set on the command line: workers: '0': must be from 1 to 4096" "$small" --set web.workers=0
expect 2 'is impossible for \[stage web\]: the p90 of its service time alone is 23.1ms' "$small" --set web.p90=20ms
expect 2 "there is no law 'adaptve'; did you mean 'adaptive'? Accepted are none, " "$small" --law adaptve
expect 2 "no 'wokers' here.*did you mean 'workers'" "$small" --set web.wokers=3
expect 2 "has no parameter 'adj_x'; did you mean 'adj_i'" "$small" --set web.adj_x=3
expect 2 'nowhere.sim: No such file' "$tmp/nowhere.sim"
expect 2 'name a folder' --list "$tmp/nowhere"
printf '[stage web]\nworkers = 0\n' >"$tmp/wrong.sim"
expect 2 "wrong.sim:2: workers: '0': must be from 1 to 4096" "$tmp/wrong.sim"
expect 0 'wrong.sim .*must be from' --list "$tmp"
{ cat "$small" && printf '[at 5s]\nweb.p90 = 10ms\n'; } >"$tmp/later.sim"
expect 2 'later.sim:11: p90 = 10ms is impossible for \[stage web\]' "$tmp/later.sim"

# A target that comes out of reach while it runs is a notice, told in whole words. Nothing is wider than a terminal.
{ cat "$small" && printf '[at 5s]\nweb.speed = 0.02\n'; } >"$tmp/slow.sim"
expect 0 '^  notice  .* cannot be met' "$tmp/slow.sim" --law adaptive --set scenario.duration=40s
expect 0 '^ *[0-9.]*s with nothing waiting$' "$tmp/slow.sim" --law adaptive --set scenario.duration=40s
for shown in "$small" "$tmp/slow.sim" --laws --list --help; do
	"$WEIR" sim "$shown" | grep -nE '.{101}| $' && fail "weir sim $shown: wider than 100 columns, or blanks at the end"
done

# The same seed, the same bytes, in every form; another seed, others.
for form in '' --json --csv; do
	# shellcheck disable=SC2086 # an option or none
	"$WEIR" sim "$small" $form --plot "$tmp/one.svg" >"$tmp/one" || fail "weir sim $form failed"
	# shellcheck disable=SC2086
	"$WEIR" sim "$small" $form --plot "$tmp/other.svg" >"$tmp/other" || fail "weir sim $form failed the second time"
	cmp -s "$tmp/one" "$tmp/other" || fail "weir sim $form: two runs differ"
	cmp -s "$tmp/one.svg" "$tmp/other.svg" || fail "weir sim --plot: two runs differ"
	# shellcheck disable=SC2086
	"$WEIR" sim "$small" $form --seed 2 | cmp -s - "$tmp/one" && fail "weir sim $form: another seed gives the same run"
done

# JSON and SVG are what they should be, and the numbers in them add up.
"$WEIR" sim "$small" --compare none,aimd --seeds 2 --json --plot "$tmp/compare.svg" >"$tmp/json" || fail "weir sim --json failed"
python3 - "$tmp" <<'END' || fail "the outputs are not as they should be"
import csv, json, sys, xml.dom.minidom
tmp = sys.argv[1]
for name in ("one.svg", "compare.svg"):
    svg = xml.dom.minidom.parse(f"{tmp}/{name}")
    assert svg.documentElement.tagName == "svg" and len(svg.getElementsByTagName("path")) >= 8, name
report = json.load(open(f"{tmp}/json"))
assert [run["seed"] for run in report["runs"]] == [1, 2, 1, 2]
assert [row["label"] for row in report["summary"]] == ["none", "aimd"]
for run in report["runs"]:
    tally = run["all"]
    ends = sum(tally[name] for name in ("shed", "dropped", "given_up", "completed")) + run["inside_at_end"]
    assert tally["offered"] + run["inside_at_start"] == ends, run
    assert abs(run["metrics"]["offered_per_s"] - tally["offered"] / 20) < 1e-6
    # As `weir load` counts them: within the target.
    assert tally["good"] <= tally["useful"] <= tally["completed"] and abs(run["metrics"]["good_per_s"] - tally["good"] / 20) < 1e-6
    assert all(phase["good_per_s"] <= phase["useful_per_s"] for phase in run["phases"])
    assert len(run["phases"]) == 2
assert any(run["all"]["good"] < run["all"]["useful"] for run in report["runs"])
none = [run["metrics"]["useful_per_s"] for run in report["runs"] if run["label"] == "none"]
assert abs(report["summary"][0]["mean"]["useful_per_s"] - sum(none) / 2) < 1e-6
assert abs(report["summary"][0]["worst"]["useful_per_s"] - min(none)) < 1e-6
rows = list(csv.DictReader(open(f"{tmp}/one")))
assert len(rows) == 200 and "web[0].rate" in rows[0] and abs(float(rows[-1]["t_s"]) - 20) < 1e-3
END
command -v xmllint >/dev/null && { xmllint --noout "$tmp/one.svg" "$tmp/compare.svg" || fail "xmllint does not like the plot"; }
"$WEIR" sim "$small" --plot /nowhere/plot.svg >/dev/null 2>&1
[ $? -eq 1 ] || fail "a plot that cannot be written is not a failure"

# The completion knows the options and the laws.
if command -v bash >/dev/null; then
	replies=$(bash -c '. completions/weir.bash; COMP_WORDS=("$WEIR" sim --comp); COMP_CWORD=2; _weir; echo "${COMPREPLY[*]}"')
	[ "$replies" = --compare ] || fail "completion of 'sim --comp' gave '$replies'"
	replies=$(bash -c '. completions/weir.bash; COMP_WORDS=("$WEIR" sim --law aim); COMP_CWORD=3; _weir; echo "${COMPREPLY[*]}"')
	[ "$replies" = aimd ] || fail "completion of 'sim --law aim' gave '$replies'"
fi

# Every scenario in lab/sim can be read, has a title, and runs, shortened, under a law and without.
for scenario in lab/sim/*.sim; do
	expect 0 '^  work ' "$scenario" --set scenario.warmup=0 --set scenario.duration=2s
	[ "$("$WEIR" sim --list | awk -v path="$scenario" '$1 == path { print NF }')" -gt 1 ] || fail "$scenario has no title"
done

# What docs/sim.md shows works as written: its scenario, and its command lines.
awk '/^```ini$/ { inside = 1; next } /^```$/ { inside = 0 } inside' docs/sim.md >"$tmp/shop.sim"
expect 0 '^A shop with a crowd$' "$tmp/shop.sim"
sed -n 's/^    weir \(sim [^#]*\).*/\1/p' docs/sim.md >"$tmp/lines"
[ -s "$tmp/lines" ] || fail "docs/sim.md shows no command line"
while read -r line; do
	# shellcheck disable=SC2086 # words
	"$WEIR" ${line%%--plot*} >/dev/null 2>"$tmp/said" || fail "docs/sim.md: weir $line: $(cat "$tmp/said")"
done <"$tmp/lines"

exit $((failures > 0))

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# weir check: good and bad configurations, what it explains, and that the documentation says the same.
set -u

folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
verb=check
# shellcheck source=tests/scenario/expect.sh
. "$SOURCE/tests/scenario/expect.sh"

mkdir "$folder/www"
cat >"$folder/good.conf" <<'END'
# served as they are
listen "127.0.0.1:8080" {}
class "gold" { level = 0; match = {"header X-Plan = gold", "method GET"} }
backend "app" { server = {"http://127.0.0.1:9000", "http://127.0.0.1:9001"}; health = /healthz }
target "default" { p90 = 200ms }
route "api" { match = "path /api/*"; backend = app; class = gold; p99 = 100ms }
include("rest.conf")
END
cat >"$folder/rest.conf" <<'END'
route "files" { root = www }
END
cat >"$folder/bad.conf" <<'END'
listen "127.0.0.1:8080" { backlg = 5 }

route "api" { backend = app
  deadline = 5 }
include("bad2.conf")
END
echo 'class "a" { level = 8 }' >"$folder/bad2.conf"

expect 0 '^[^ ]*/good.conf: ok$' "$folder/good.conf"
expect 0 '^  listen   127.0.0.1:8080$' "$folder/good.conf"
expect 0 '^  route    api: path /api/\* -> backend app; class gold; law adaptive-remote, p99, target 100ms$' "$folder/good.conf"
expect 0 "^  route    files: every request -> files in $folder/www; law adaptive, .*200ms" "$folder/good.conf"
expect 0 '^  class    gold, level 0: header X-Plan = gold and method GET$' "$folder/good.conf"
expect 0 '^  backend  app: .*; health /healthz; exempt: /healthz$' "$folder/good.conf"
expect 0 '^  listen   127.0.0.1:81$' "$folder/good.conf" --listen 127.0.0.1:81
expect 0 'law adaptive-remote, p95, target 1s, dry run$' -c "$folder/good.conf" --to http://127.0.0.1:1 --p95 1s --dry-run
expect 0 '^  admin    off$' "$folder/good.conf" --admin=off

expect 1 "/bad.conf:1: listen has no key 'backlg'; did you mean 'backlog'?" "$folder/bad.conf"
expect 1 '/bad.conf:3: there is no backend "app"' "$folder/bad.conf"
expect 1 "/bad.conf:4: deadline: '5': the unit is missing" "$folder/bad.conf"
expect 1 "/bad2.conf:1: level: '8': must be from 0 to 7" "$folder/bad.conf"
expect 1 '^[^ ]*/bad.conf: 4 errors$' "$folder/bad.conf"
expect 1 'nowhere.conf: No such file' "$folder/nowhere.conf"

# A key of another block is told where it belongs.
printf 'route "x" { demo = bottleneck\n request-id = on\n user = nobody }\n' >"$folder/elsewhere.conf"
expect 1 "/elsewhere.conf:2: route has no key 'request-id'; it belongs in a block backend$" "$folder/elsewhere.conf"
expect 1 "/elsewhere.conf:3: route has no key 'user'; it belongs in a block listen or process$" "$folder/elsewhere.conf"

expect 2 'name a configuration'
expect 2 "unexpected argument 'b'" a b
expect 2 "unexpected argument '--frobnicate'" --frobnicate
expect 2 '^weir check: --listen: ' a --listen nowhere
expect 2 '^weir check: --p90: its value is missing' a --p90

expect 0 '^listen "TITLE" { ... }' --list
expect 0 '^  max-connections ' --explain listen
expect 0 '(time, 0s to 24h; default 0s)' --explain route.deadline
expect 2 "did you mean 'listen'" --explain lisen
expect 2 "did you mean 'backlog'" --explain listen.backlg
expect 2 "'weir check --list' lists" --explain frobnicate
expect 2 "'weir check --list' lists" --explain foo
expect 2 '^weir check: --explain: its value is missing' --explain
expect 2 "unexpected argument 'x'" --list x
expect 2 "unexpected argument 'x'" --explain listen x

# what is promised and earned
cat >"$folder/sla.conf" <<'END'
backend "app" { server = "http://127.0.0.1:1" }
sla "shop" { percentile = p95; times = {"1s below 1000/s", "2s"} }
class "gold" { level = 0; match = "path /buy/*"; revenue = 10; guaranteed = 50/s }
class "bronze" { level = 2; revenue = 1 }
target "default" { sla = shop }
route "all" { backend = app }
END
expect 0 '^  class    gold, level 0, revenue 10, guaranteed 50/s: path /buy/\*$' "$folder/sla.conf"
expect 0 '^  class    bronze, level 2, revenue 1: every request$' "$folder/sla.conf"
expect 0 '; law value, p95, target 1s, sla shop$' "$folder/sla.conf"

# health PATH: a configuration of one backend that is asked for this
health() {
	printf '\nbackend "app" { server = "http://127.0.0.1:1"; health = "%s" }\nroute "all" { backend = app%s }\n' "$1" "${2-}" >"$folder/health.conf"
}
health '/health?x=1'
expect 0 '; health /health?x=1; exempt: /health$' "$folder/health.conf"
health '/h*'
expect 0 '; health /h\*; exempt: /h\*$' "$folder/health.conf"
for path in / '/?x'; do
	health "$path"
	expect 0 "; health $path\$" "$folder/health.conf"
done
health '/a b'
expect 1 '/health.conf:2: health: no space' "$folder/health.conf"
health '/a%zz'
expect 1 '/health.conf:2: health: rule ' "$folder/health.conf"
health "/$(printf '%0600d' 0)"
expect 1 '/health.conf:2: health: it has more than 512 bytes' "$folder/health.conf"
health '/ok' "; match = {$(yes '"method GET"' | head -16 | paste -sd,)}"
expect 0 '/health.conf:3: warning: match: with more than 14 rules .* not exempt' "$folder/health.conf"

# What does not fit is refused, not cut.
head -c 65536 /dev/zero >"$folder/page.html"
printf '\nroute "x" { demo = bottleneck\n reject = "page page.html" }\n' >"$folder/page.conf"
expect 0 '/page.conf: ok$' "$folder/page.conf"
echo >>"$folder/page.html"
expect 1 '/page.conf:3: reject: page: [^ ]*/page.html has 65537 bytes; at most 65536' "$folder/page.conf"

printf 'admin "127.0.0.1:1" {\n host = "weir.example:80" }\n' >"$folder/admin.conf"
expect 1 '/admin.conf:2: host: write names without a port' "$folder/admin.conf"

# Certificates are looked into, and people are looked up, as serving does it.
for name in a b; do
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$folder/$name.key" -out "$folder/$name.pem" -days 9 \
		-subj "/CN=$name" 2>/dev/null
done
# listen WHAT: a configuration of one listener
listen() {
	printf '\nlisten "127.0.0.1:1" { %s }\n' "$1" >"$folder/listen.conf"
}
if [ -s "$folder/b.pem" ]; then
	listen 'certificate = a.pem; key = a.key'
	expect 0 '^  listen   127.0.0.1:1, tls$' "$folder/listen.conf"
	listen 'certificate = a.pem; key = b.key'
	expect 1 '/listen.conf:2: TLS: key [^ ]*/b.key: .*mismatch' "$folder/listen.conf"
	listen 'certificate = good.conf; key = a.key'
	expect 1 '/listen.conf:2: TLS: certificate [^ ]*/good.conf: ' "$folder/listen.conf"
	listen 'certificate = a.pem; key = a.key; ciphers = FOO'
	expect 1 '/listen.conf:2: TLS: ciphers FOO: ' "$folder/listen.conf"
	listen "certificate = {$(yes a.pem | head -65 | paste -sd,)}; key = {$(yes a.key | head -65 | paste -sd,)}"
	expect 1 '/listen.conf:2: 65 certificates; at most 64' "$folder/listen.conf"
fi
# What a start opens: outputs, which are not made here; tokens; authorities; the folder of the admin's socket.
# opened WHAT: a configuration of one route and this
opened() {
	printf '%s\nroute "x" { demo = bottleneck }\n' "$1" >"$folder/opened.conf"
}
for key in access error; do
	opened "log { $key = nowhere/a.log }"
	expect 1 "/opened.conf:1: $key: [^ ]*/nowhere/a.log: No such file or directory" "$folder/opened.conf"
	opened "log { $key = www }"
	expect 1 "/opened.conf:1: $key: [^ ]*/www: Is a directory" "$folder/opened.conf"
	opened "log { $key = new.log }"
	expect 0 '/opened.conf: ok$' "$folder/opened.conf"
	[ ! -e "$folder/new.log" ] || fail "weir check made a log"
done
ln -s nowhere/a.log "$folder/link.log"
opened 'log { access = link.log }'
expect 1 '/opened.conf:1: access: [^ ]*/link.log: No such file or directory' "$folder/opened.conf"
expect 1 '^command line: access: /nowhere/a.log: No such file or directory' "$folder/rest.conf" --access-log /nowhere/a.log
echo kept >"$folder/old.log"
opened 'log { access = old.log; error = "-" }'
expect 0 '/opened.conf: ok$' "$folder/opened.conf"
[ "$(cat "$folder/old.log")" = kept ] || fail "weir check changed a log"
echo >"$folder/token"
opened 'admin "127.0.0.1:1" { token-file = token }'
expect 1 '/opened.conf:1: token-file: no token in [^ ]*/token: its first line is empty' "$folder/opened.conf"
opened 'admin "unix:/nowhere/admin.sock" {}'
expect 1 '/opened.conf:1: admin: /nowhere is no folder' "$folder/opened.conf"
opened 'backend "a" { server = "https://127.0.0.1:1"; ca = token }'
expect 1 '/opened.conf:1: ca: TLS: CA [^ ]*/token: ' "$folder/opened.conf"
mkfifo "$folder/pipe"
opened 'backend "a" { server = "https://127.0.0.1:1"; ca = pipe }'
expect 0 '/opened.conf: ok$' "$folder/opened.conf"
printf 'process {\n user = nobody-at-all\n group = none-at-all }\n' >"$folder/process.conf"
expect 1 "/process.conf:2: user: there is no 'nobody-at-all' on this machine" "$folder/process.conf"
expect 1 "/process.conf:3: group: there is no 'none-at-all' on this machine" "$folder/process.conf"

# The documentation has the tables as they are, and its example is a good one but for files that are not here.
"$WEIR" check --markdown >"$folder/keys.md"
sed -n '/^<!-- keys -->$/,/^<!-- \/keys -->$/p' "$SOURCE/docs/config.md" | sed '1d;$d' >"$folder/documented.md"
diff "$folder/documented.md" "$folder/keys.md" || fail "docs/config.md differs from weir check --markdown"
# example BLOCK PAGE: the one that begins with this block
example() {
	sed -n "/^$1/,/^\`\`\`\$/p" "$SOURCE/docs/$2" | sed '$d' >"$folder/example.conf"
	output=$("$WEIR" check "$folder/example.conf")
	others=$(printf '%s\n' "$output" | grep -v -e ': \(certificate\|key\|root\): .*No such file' -e ': [1-3] errors*$')
	[ -s "$folder/example.conf" ] || fail "docs/$2 has no example"
	case $others in
	*warning*) fail "the example in docs/$2: $others" ;;
	'' | *': ok'*) ;;
	*) fail "the example in docs/$2: $others" ;;
	esac
}
example 'listen "\*:443"' config.md
example 'listen "127' serve.md
example 'class "paying"' sentry.md

# Every flag of the usage is taken, and the completion offers it.
for flag in $("$WEIR" check --help | grep -o -e '^  --[a-z][a-z0-9-]*' | grep -v -e list -e explain -e markdown); do
	case $flag in
	--dry-run | --demo) value= ;;
	--threads) value=1 ;;
	--to) value=http://127.0.0.1:1 ;;
	--root) value=/tmp ;;
	--p90) value=1s ;;
	--scheduling) value=srpt ;;
	--uplink) value=10mbit ;;
	--cert | --key) continue ;; # they come together; below
	*) value=off ;;
	esac
	[ "$flag" = --listen ] && value=127.0.0.1:1
	# shellcheck disable=SC2086 # a value, or none
	expect 0 ': ok$' "$folder/rest.conf" "$flag" $value
done
expect 1 'certificate: off: No such file' "$folder/rest.conf" --cert off --key off
expect 1 '1 certificate, 0 keys; there must be one key for each' "$folder/rest.conf" --cert off
if command -v bash >/dev/null; then
	replies=$(bash -c '. "$SOURCE/completions/weir.bash"; COMP_WORDS=("$WEIR" check --explain li); COMP_CWORD=3; _weir; echo "${COMPREPLY[*]}"')
	[ "$replies" = "listen limit limits" ] || fail "completion of 'check --explain li' gave '$replies'"
fi

# What is done to headers, and to clients that hammer, is shown.
cat >"$folder/edits.conf" <<'END'
limits { hammering = 10/s; hammering-delay = 300ms }
backend "app" { server = "http://127.0.0.1:9"; request-headers = {"set X-Env: prod", "remove X-Debug"}; answer-headers = "add X-Tag: a" }
route "all" { backend = app }
END
shown=$("$WEIR" check "$folder/edits.conf") || fail "edits.conf: $shown"
for line in "headers  app, of requests: set X-Env: prod" "headers  app, of requests: remove X-Debug" "headers  app, of answers: add X-Tag: a" \
	"delay    rejections to an address beyond 10/s, by 300ms"; do
	case $shown in
	*"$line"*) ;;
	*) fail "'$line' is not in: $shown" ;;
	esac
done
exit $((failures > 0))

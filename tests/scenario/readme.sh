#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the documents show and point to is there: the README's program is examples/hello.c, and no link leads nowhere.
set -eu
cd "$SOURCE"

awk '/^```c$/ { inside = 1; next } /^```$/ { if (inside) exit } inside' README.md | diff - examples/hello.c || {
	echo "README.md shows another program than examples/hello.c"
	exit 1
}

status=0
for page in README.md CONTRIBUTING.md docs/*.md docs/cookbook/*.md src/*/README.md; do
	links=$(grep -o '](\([^)#]*\)' "$page" | sed 's/^](//') || continue
	for link in $links; do
		case $link in
		*://* | '') continue ;;
		esac
		[ -e "$(dirname "$page")/$link" ] || {
			echo "$page: there is no $link"
			status=1
		}
	done
done
# The configurations of the cookbook are right; certificates are made for it.
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
openssl req -x509 -newkey rsa:2048 -nodes -keyout "$made/site.key" -out "$made/site.pem" -days 2 -subj /CN=a.test 2>/dev/null
for page in docs/cookbook/*.md; do
	awk '/^```weir$/ { inside = 1; next } /^```$/ { inside = 0 } inside' "$page" | sed "s|/etc/ssl/|$made/|g" >"$made/weir.conf"
	[ -s "$made/weir.conf" ] || continue
	"$WEIR" check "$made/weir.conf" >"$made/said" 2>&1 || {
		echo "$page: $(cat "$made/said")"
		status=1
	}
done
# Whoever installs the page's libraries takes them from where they take all others.
! grep -n -e '://' -e '"resolved"' web/package-lock.json || {
	echo "web/package-lock.json names hosts"
	status=1
}
for folder in src/*/; do
	[ -f "${folder}README.md" ] || {
		echo "$folder has no README.md"
		status=1
	}
done
exit $status

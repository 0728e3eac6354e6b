#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# HTTP/2 with the clients people have: curl by prior knowledge, h2load with many streams. Neither is needed to build: without them there is nothing to see.
set -eu

for client in curl h2load; do
	command -v "$client" >/dev/null || { echo "there is no $client" && exit 77; }
done
curl --version | grep -q HTTP2 || { echo "this curl does not speak HTTP/2" && exit 77; }

scratch=$(mktemp -d)
mkfifo "$scratch/pipe"
"$EXAMPLES/http_hello" 0 >"$scratch/pipe" &
pid=$!
trap 'kill "$pid" 2>/dev/null || :; rm -rf "$scratch"' EXIT
exec 3<"$scratch/pipe"
read -r url rest <&3
echo "$url $rest"

version=$(curl -sS --max-time 60 --http2-prior-knowledge -o "$scratch/body" -w '%{http_version} %{http_code}' "$url")
[ "$version" = "2 200" ] || { echo "curl: $version" && exit 1; }
grep -qx hello "$scratch/body" || { echo "curl: not what was expected" && exit 1; }

# HTTP/1 on the same port, and an offer to change to h2c, which is not taken.
version=$(curl -sS --max-time 60 --http2 -o "$scratch/body" -w '%{http_version} %{http_code}' "$url")
[ "$version" = "1.1 200" ] || { echo "curl --http2: $version" && exit 1; }

# A body that nobody reads is answered, not waited for.
head -c 60000 /dev/zero >"$scratch/zeros"
version=$(curl -sS --max-time 60 --http2-prior-knowledge --data-binary "@$scratch/zeros" -o "$scratch/body" -w '%{http_code}' "$url")
[ "$version" = "200" ] || { echo "curl, a body: $version" && exit 1; }

h2load -n 20000 -c 10 -m 32 "$url" >"$scratch/load" || { cat "$scratch/load" && exit 1; }
grep 'requests:' "$scratch/load"
grep -q '20000 succeeded, 0 failed, 0 errored' "$scratch/load" || { cat "$scratch/load" && exit 1; }

kill -TERM "$pid"
status=0
wait "$pid" || status=$?
[ "$status" -eq 0 ] || { echo "exit status $status" && exit 1; }

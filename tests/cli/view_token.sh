#!/usr/bin/env bash
# Access to attend view: clients with the printed address, on a machine that
# others use too.
. "$(dirname "$0")/lib.bash"
without_view

# status URL [HEADER]: of the reply to GET, or with HEADER (which may be empty) to a
# question; the reply is in $work/reply, its headers first
status() {
  python3 - "$@" 2>&1 >"$work/reply" <<'PYTHON'
import sys, urllib.error, urllib.request
request = urllib.request.Request(sys.argv[1])
if len(sys.argv) > 2:
    request.data = b"{}"
    request.add_header("Content-Type", "application/json")
    if sys.argv[2]:
        request.add_header(*sys.argv[2].split(": "))
try:
    reply = urllib.request.urlopen(request, timeout=60)
except urllib.error.HTTPError as e:
    reply = e
print(reply.headers, reply.read().decode(), sep="")
print(reply.status, file=sys.stderr)
PYTHON
}
# gets CODE URL [HEADER]
gets() {
  local code=$1 got
  shift
  got=$(status "$@")
  [[ $got == "$code" ]] || fail "$* gets $got, not $code: $(cat "$work/reply")"
}

serve --model "$models/gpt2" "1 2 3"
page=${address%%\?*} token=${address##*=} question=${address%%\?*}api/hello
[[ $token =~ ^[0-9a-f]{32,}$ ]] || fail "128 bits of a token are not in $address"
gets 200 "$address"
gets 403 "$page"
grep -q 'open the whole address that attend view printed' "$work/reply" ||
  fail "no remedy: $(cat "$work/reply")"
gets 403 "${address%?}"
gets 200 "$question" "Authorization: Bearer $token"
gets 403 "$question" ""
gets 403 "$question" "Authorization: Bearer ${token%?}"
gets 403 "$question" "Cookie: token=$token"
gets 200 "$address"
grep -qi '^referrer-policy: no-referrer' "$work/reply" || fail "links tell the token"
! grep -qi '^set-cookie' "$work/reply" || fail "every port of this machine gets the cookie"
end_server

# Another server has another token.
serve --model "$models/gpt2" "1 2 3"
[[ ${address##*=} != "$token" ]] || fail "two servers have one token"
page=${address%%\?*} question=${address%%\?*}api/hello
gets 403 "$page?token=$token"
gets 403 "$question" "Authorization: Bearer $token"
end_server

# ---- --open: what programs are started with is seen by all users -----------------

mkdir "$work/bin"
cat >"$work/bin/xdg-open" <<'SCRIPT'
#!/bin/sh
echo "$1" >"$OPENED.part"
stat -c %a "$1" >>"$OPENED.part"
cat "$1" >>"$OPENED.part"
mv "$OPENED.part" "$OPENED"
SCRIPT
chmod +x "$work/bin/xdg-open"
OPENED=$work/opened PATH=$work/bin:$PATH serve --open --model "$models/gpt2" "1 2 3"
for _ in $(seq 100); do
  [[ ! -e $work/opened ]] || break
  sleep 0.1
done
{ read -r file && read -r mode && read -r leads; } <"$work/opened"
[[ $file != *token* && $mode == 600 ]] || fail "the browser is started with $file, mode $mode"
[[ $leads == *"url=$address\""* ]] || fail "the file leads to $leads, not $address"
end_server
[[ ! -e $file ]] || fail "$file stays"

# ---- --no-token: for scripts on one's own machine ----------------------------------

serve --no-token --model "$models/gpt2" "1 2 3"
[[ $address != *token* ]] || fail "--no-token prints $address"
question=${address}api/hello
gets 200 "$address"
gets 200 "$question" ""
end_server
run 2 view --no-token --allow-remote --model "$models/gpt2" "1 2 3"
grep -q 'would answer everybody' "$work/err" || fail "both: $(cat "$work/err")"

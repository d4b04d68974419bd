# What the tests of `attend pull` share: hub_server.py, and talking to it.
world=$work/world
hub_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
unset HF_HOME HF_HUB_CACHE HF_TOKEN HF_TOKEN_PATH HF_HUB_OFFLINE HF_ENDPOINT
unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY all_proxy ALL_PROXY
export HOME=$work no_proxy='*'

# start_hub: of what lies in $world; $port is where.
start_hub() {
  python3 "$hub_folder/hub_server.py" "$world" &
  server=$!
  trap 'kill $server; umount "$work/disk" 2>/dev/null || true; rm -rf "$work"' EXIT
  for ((i = 0; i < 300; i++)); do [[ -e $world/ports ]] || sleep 0.1; done
  read -r port _ <"$world/ports" || fail "the test's hub does not start"
}

# switches NAME=VALUE[:TIMES]...: those of hub_server.py; also empties its log.
switches() {
  local IFS='&'
  exec 9<>"/dev/tcp/127.0.0.1/$port"
  printf 'GET /_set?%s HTTP/1.1\r\nConnection: close\r\n\r\n' "$*" >&9
  cat <&9 >/dev/null
  exec 9>&-
  : >"$world/log"
}

# asked PATTERN: how many requests were like that.
asked() { grep -Ec -- "$1" "$world/log" || true; }

#!/usr/bin/env bash
# Runs a command under Open MPI over emulated hosts: network namespaces of this machine, joined by a
# bridge in another namespace. A token bucket limits the rate of each host's link in both directions
# (Ethernet headers count). Needs root, iproute2, and openmpi-bin for COMMAND. Hosts share this
# machine's processors, memory and files; only their networks are separate.
#
# Usage: emulated_cluster.sh --hosts N [--mbit R] [options] -- COMMAND [ARGUMENT ...]
#        emulated_cluster.sh --hosts N [--mbit R] [options] --check
#        emulated_cluster.sh --clean
#   --hosts N           number of hosts, 2 to 100
#   --mbit R            10^6 bits a second to and from each host (default: no limit)
#   --latency-us L      one-way latency between two hosts; refused if the kernel has no netem
#   --ranks-per-host M  ranks on each host (default 1); ranks M i to M i + M - 1 are on host i + 1
#   --name NAME         name of the cluster (default: the first free of hg0, hg1, ...); its hosts are
#                       NAME-h1, NAME-h2, ...; a name in use is refused
#   --cut-host I        silently cuts the link of host I in both directions ...
#   --cut-after S       ... S seconds after the start of COMMAND
#   --limit S           ends COMMAND after S seconds, with exit code 124
#   --check             measures rate and round trip between two hosts and prints them beside the
#                       settings; the exit code is 1 if the rate is more than 10 % off
#   --clean             removes the clusters of scripts that were killed
# mpirun starts COMMAND once for each rank; the exit code is mpirun's. SIGTERM, SIGINT, SIGUSR1 and
# SIGUSR2 are passed to mpirun. Every rank gets the environment. The cluster is removed at the end.
set -euo pipefail

readonly SELF=${BASH_SOURCE[0]##*/}
readonly STATE=/run/heliograph-cluster  # A cluster claims its name by making a folder here.
readonly SUBNET=10.77.0                 # The same in every cluster: only its namespaces see it.
readonly MTU=9000                      # Jumbo frames: with 1500 bytes the hosts' network stacks, which
                                        # share this machine, took ten times the processor time.

fail() { echo "$SELF: $*" >&2; exit 1; }
usage() { echo "$SELF: $*; --help says more" >&2; exit 2; }
help() { sed -n '2,/^set /s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0; }

want_integer() {  # flag, value, least, most
  if ! [[ $2 =~ ^[0-9]{1,9}$ ]] || ((10#$2 < $3 || 10#$2 > $4)); then
    usage "$1 $2: an integer from $3 to $4 is needed"
  fi
}
want_number() {  # flag, value
  [[ $2 =~ ^[0-9]{1,9}(\.[0-9]{1,9})?$ && $2 =~ [1-9] ]] || usage "$1 $2: a number above 0 is needed"
}

hosts='' mbit='' latency='' per_host=1 name='' cut_host='' cut_after='' limit='' mode=run
while [ $# -gt 0 ]; do
  case $1 in
    --check) mode=check ;;
    --clean) mode=clean ;;
    --help | -h) help ;;
    --) shift; break ;;
    --hosts | --mbit | --latency-us | --ranks-per-host | --name | --cut-host | --cut-after | --limit)
      [ $# -ge 2 ] || usage "$1 needs a value"
      case $1 in
        --hosts) want_integer "$1" "$2" 2 100; hosts=$((10#$2)) ;;
        --mbit) want_number "$1" "$2"; mbit=$2 ;;
        --latency-us) want_integer "$1" "$2" 1 10000000; latency=$2 ;;
        --ranks-per-host) want_integer "$1" "$2" 1 1000; per_host=$((10#$2)) ;;
        --name)
          [[ $2 =~ ^[a-z][a-z0-9]{0,15}$ ]] || usage "$1 $2: up to 16 of a-z and 0-9, a letter first"
          name=$2 ;;
        --cut-host) want_integer "$1" "$2" 1 100; cut_host=$((10#$2)) ;;
        --cut-after) want_number "$1" "$2"; cut_after=$2 ;;
        --limit) want_number "$1" "$2"; limit=$2 ;;
      esac
      shift ;;
    *) usage "$1 is not an option (COMMAND follows --)" ;;
  esac
  shift
done
if [ "$mode" != clean ]; then
  [ -n "$hosts" ] || usage "--hosts is missing"
  [ "$mode" = check ] || [ $# -gt 0 ] || usage "COMMAND is missing"
  [ "$mode" = run ] || [ $# = 0 ] || usage "--check takes no COMMAND"
  [ -z "$cut_host" ] || ((cut_host <= hosts)) || usage "--cut-host $cut_host: there are $hosts hosts"
  [ "${cut_host:+x}" = "${cut_after:+x}" ] || usage "--cut-host and --cut-after belong together"
fi
[ "$(id -u)" = 0 ] || fail "needs root, for network namespaces"
for tool in ip tc; do
  command -v $tool >/dev/null || fail "$tool is missing: apt-get install iproute2"
done
if [ "$mode" = run ]; then
  command -v mpirun >/dev/null || fail "mpirun is missing: apt-get install openmpi-bin"
fi

# --- Taking down, given only the name, so that --clean can do it too ---

namespaces_of() {  # cluster
  local found
  for found in /run/netns/"$1"-h[0-9]* /run/netns/"$1"-switch; do
    [ ! -e "$found" ] || echo "${found##*/}"
  done
}

take_down() {  # cluster
  local space pids
  for _ in {1..50}; do  # Repeats, since a process may start another during the search.
    pids=$(for space in $(namespaces_of "$1"); do ip netns pids "$space"; done)
    [ -n "$pids" ] || break
    # shellcheck disable=SC2086  # a list of numbers
    kill -KILL $pids 2>/dev/null || true
    sleep 0.1
  done
  for space in $(namespaces_of "$1"); do
    ip netns delete "$space" || echo "$SELF: the namespace $space could not be removed" >&2
  done
  rm -rf "${STATE:?}/${1:?}"
}

process_start() {  # pid -> start time in clock ticks, which differs for a later process of that pid
  sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20
}

if [ "$mode" = clean ]; then
  for folder in "$STATE"/* "$STATE"/.new.*; do
    [ -r "$folder/owner" ] || continue
    read -r pid started <"$folder/owner"
    [ "$(process_start "$pid")" != "$started" ] || continue
    echo "Removing what is left of ${folder##*/}"
    take_down "${folder##*/}"
  done
  exit 0
fi

# --- Setting up ---

claimed=''
leave() {
  local code=$?
  set +e
  trap '' TERM INT HUP USR1 USR2
  [ -z "$claimed" ] || take_down "$claimed"
  exit "$code"
}
trap leave EXIT
trap 'exit 143' TERM
trap 'exit 130' INT HUP

# The folder is complete before it gets its name, and renaming onto a folder that is not empty
# fails. So a name has at most one owner, and its folder says who that is.
claim() {
  local new candidate
  local -a candidates=("$name")
  [ -n "$name" ] || candidates=(hg{0..99})
  mkdir -p "$STATE"
  new=$(mktemp -d "$STATE/.new.XXXXXX")
  echo "$$ $(process_start $$)" >"$new/owner"
  for candidate in "${candidates[@]}"; do
    [ -z "$(namespaces_of "$candidate")" ] || continue
    if mv -T "$new" "$STATE/$candidate" 2>/dev/null; then
      claimed=$candidate
      return
    fi
  done
  rm -rf "$new"
  [ -z "$name" ] || fail "--name $name: a cluster or a namespace of that name exists"
  fail "no name is free: $SELF --clean removes clusters of scripts that were killed"
}

# A bucket of 1 ms keeps the rate when a timer is late and is small compared with a message.
limit_rate() {  # namespace, device, its parent
  [ -n "$mbit" ] || return 0
  local space=$1 device=$2 burst
  shift 2
  burst=$(awk "BEGIN { b = $mbit * 1e6 / 8 * 0.001; print int(b > 2 * $MTU ? b : 2 * $MTU) }")
  tc -n "$space" qdisc add dev "$device" "$@" tbf rate "${mbit}mbit" burst "$burst" latency 100ms
}

add_host() {  # number
  local host=$claimed-h$1
  ip netns add "$host"
  ip -n "$host" link set lo up
  ip -n "$host" link add eth0 mtu $MTU type veth peer name "port$1" mtu $MTU netns "$switch"
  ip -n "$host" address add "$SUBNET.$1/24" dev eth0
  ip -n "$switch" link set "port$1" master bridge up
  ip -n "$host" link set eth0 up
  # Not the machine's default: Reno is the only one that every kernel allows in a namespace.
  ip netns exec "$host" sh -c 'echo reno >/proc/sys/net/ipv4/tcp_congestion_control'
  if [ -n "$latency" ]; then
    tc -n "$host" qdisc add dev eth0 root handle 1: netem delay "${latency}us" limit 100000
    limit_rate "$host" eth0 parent 1:1
  else
    limit_rate "$host" eth0 root
  fi
  limit_rate "$switch" "port$1" root
  echo "$SUBNET.$1 $host" >>"$STATE/$claimed/hosts"
  echo "$host slots=$per_host" >>"$STATE/$claimed/hostfile"
}

set_up() {
  local i
  claim
  switch=$claimed-switch
  ip netns add "$switch" || fail "network namespaces cannot be made here"
  if [ -n "$latency" ] && ! tc -n "$switch" qdisc add dev lo root netem delay 1us 2>/dev/null; then
    fail "--latency-us $latency: this kernel has no netem"
  fi
  ip -n "$switch" link add bridge type bridge || fail "bridges cannot be made here"
  ip -n "$switch" link set bridge up
  echo "127.0.0.1 localhost" >"$STATE/$claimed/hosts"
  for ((i = 1; i <= hosts; ++i)); do add_host $i; done
  # A script that enters a host's network, sets its name and mounts a private list of hosts. mpirun
  # calls it with a host and the command line of its daemon there. Every step replaces the process.
  cat >"$STATE/$claimed/enter" <<END
host=\$1
shift
exec ip netns exec "\$host" unshare --uts bash -c '
  hostname "\$0" && mount --bind "$STATE/$claimed/hosts" /etc/hosts && exec bash -c "\$*"' "\$host" "\$@"
END
}

# --- Running ---

beside() {  # Runs an sh script in the switch's namespace, so that take_down ends it with the rest.
  ip netns exec "$switch" sh -c "$1" &
  disown  # so that the shell does not report its end
}

run_command() {
  # shellcheck disable=SC2054  # the commas are parts of values
  local -a mpirun=(
    mpirun --allow-run-as-root --hostfile "$STATE/$claimed/hostfile" -np $((hosts * per_host))
    --map-by slot --bind-to none
    --mca plm_rsh_agent "bash $STATE/$claimed/enter" --mca plm_rsh_no_tree_spawn 1
    --mca oob_tcp_if_include "$SUBNET.0/24" --mca btl_tcp_if_include "$SUBNET.0/24"
    --mca pml ob1 --mca btl tcp,self --mca mpi_yield_when_idle 1
    # Without "put", by which a whole message in a socket's queue delays the clearances to send of
    # the other direction, so that both directions of a slow link take turns.
    --mca btl_tcp_flags send,inplace,need-ack,need-csum --mca btl_tcp_max_send_size 32768
    # Messages of usual size, whose receives are posted early, need no clearance.
    --mca btl_tcp_eager_limit 2097152 --mca btl_tcp_rndv_eager_limit 2097152)
  # Short queues on slow links, so that small messages do not wait long in them.
  if [ -n "$mbit" ] && awk "BEGIN { exit !($mbit <= 1000) }"; then
    mpirun+=(--mca btl_tcp_sndbuf 131072 --mca btl_tcp_rcvbuf 1048576)
  fi
  mpirun+=("$@")
  local code=0 child signal
  bash "$STATE/$claimed/enter" "$claimed-h1" "exec $(printf '%q ' "${mpirun[@]}")" &
  child=$!
  # shellcheck disable=SC2064  # the signal and the child are expanded here
  for signal in TERM INT USR1 USR2; do trap "kill -$signal $child 2>/dev/null || true" $signal; done
  # Off the bridge, frames vanish without an error on either side.
  [ -z "$cut_host" ] || beside "sleep $cut_after && ip link set port$cut_host nomaster &&
    echo \"$SELF: cut $claimed-h$cut_host at \$(date +%s.%N)\" >&2"
  [ -z "$limit" ] || beside "sleep $limit && : >'$STATE/$claimed/over' && kill $child &&
    sleep 5 && kill -KILL $child"
  while :; do  # since a signal ends `wait` before the child has ended
    code=0
    wait "$child" || code=$?
    kill -0 "$child" 2>/dev/null || break
  done
  [ ! -e "$STATE/$claimed/over" ] || code=124
  return "$code"
}

set_up
if [ "$mode" = check ]; then
  python3 "$(dirname "${BASH_SOURCE[0]}")/link_rate.py" "$claimed-h1" "$claimed-h2" "$SUBNET.2" \
    ${mbit:+--mbit "$mbit"} ${latency:+--latency-us "$latency"}
else
  run_command "$@"
fi

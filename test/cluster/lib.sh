# Sourced by the scripts in this folder: paths, and functions that start, find and wait for processes.
# shellcheck shell=bash disable=SC2034  # the variables are for the scripts that source this

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${LATCHKEY_CLUSTER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/latchkey-cluster}
# Folder of built programs, and folder of the control plane's programs.
built=$cache/bin
bin=${KUBEBUILDER_ASSETS:-$built}
# Set by scripts that take it as an argument.
state=

die() { echo "${0##*/}: $*" >&2; exit 1; }
say() { echo "${0##*/}: $*" >&2; }

use_state() { # folder
  [ -n "${1:-}" ] || die "no folder given"
  state=$(realpath -m "$1")
}

# A pid may be reused; pid and start time identify one process.
start_time() { awk '{ sub(/.*\) /, ""); if ($1 != "Z") print $20 }' "/proc/$1/stat" 2>/dev/null; }

running() { # name
  local pid began
  read -r pid began 2>/dev/null <"$state/pid/$1" && [ -n "$began" ] && [ "$(start_time "$pid")" = "$began" ]
}

start() { # name command...: in the background, to be started again by `cycle`
  local name=$1
  shift
  printf '%q ' "$@" >"$state/command/$name"
  launch "$name"
}

launch() { # name
  local command prefix
  eval "command=($(<"$state/command/$1"))"
  prefix=$(in_node -n -m -p) || exit 1 # or else it would run on the machine's own network
  # A separate process group, so that Ctrl-C reaches the tests and not the server that they still use.
  # shellcheck disable=SC2086  # several words
  setsid $prefix "${command[@]}" </dev/null >>"$state/log/$1.log" 2>&1 &
  echo "$! $(start_time $!)" >"$state/pid/$1"
}

end() { # name: at once, since nothing is worth saving
  local pid
  running "$1" || return 0
  read -r pid _ <"$state/pid/$1"
  kill -KILL -- "-$pid" 2>/dev/null || true
  wait_for 20 "$1 to end" has_ended "$1" "$pid"
}

# A process runs until its last thread ends: the others hold its ports after the first thread is dead.
has_ended() { # name pid
  ! running "$1" && [ "$(find "/proc/$2/task" -mindepth 1 -maxdepth 1 2>/dev/null | wc -l)" -le 1 ]
}

# Prints the prefix that runs a command in these namespaces of the node; empty for a control plane without a node.
in_node() { # nsenter's options
  local pid holder
  [ -e "$state/pid/node" ] || return 0
  running node || die "no node is up in $state"
  read -r pid _ <"$state/pid/node"
  holder=$(cat "/proc/$pid/task/$pid/children")
  [ -n "$holder" ] || die "the node in $state is ending"
  echo "nsenter --target ${holder% } $* --"
}

kubectl() {
  local prefix
  prefix=$(in_node -n) || return 1
  # shellcheck disable=SC2086  # several words
  $prefix "$bin/kubectl" --kubeconfig="$state/admin.kubeconfig" "$@"
}

wait_for() { # seconds description command...
  local deadline=$((SECONDS + $1)) what=$2
  shift 2
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt "$deadline" ] || die "timed out waiting for $what; see $state/log"
    sleep 0.1
  done
}

dead() { # the names of what was started and has ended
  local file
  for file in "$state"/pid/*; do running "${file##*/}" || echo "${file##*/}"; done
}

ready_or_dead() { [ -n "$(dead)" ] || "$@"; }

# Like wait_for, but fails at once if a started process ends.
wait_while_alive() { # seconds description command...
  local seconds=$1 what=$2
  shift 2
  wait_for "$seconds" "$what" ready_or_dead "$@"
  [ -z "$(dead)" ] || die "ended while waiting for $what: $(dead | xargs); see $state/log"
}

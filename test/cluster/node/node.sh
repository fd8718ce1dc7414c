# Sourced by the scripts of a node: its addresses and paths, and rendering of its configuration files.
# shellcheck shell=bash disable=SC2034,SC2154  # for the scripts that source this; here, state, built come from lib.sh

bin=$built # all of one version
# Reserved for benchmarks (RFC 2544), so that no real network has these addresses.
node_ip=198.18.0.1
# Same networks as kind, which config/presets/kind.yaml expects.
pod_cidr=10.244.0.0/24
service_cidr=10.96.0.0/16
dns_ip=10.96.0.10

ctr() { command ctr --address "$state/containerd.sock" --namespace k8s.io "$@"; }

# The cgroup of this state folder's pods.
cgroup() { echo "latchkey-$(sha256sum <<<"$state" | cut -c1-8)"; }

render() { # file: with its @PLACEHOLDERS@ filled in
  sed -e "s|@STATE@|$state|g; s|@NODE_IP@|$node_ip|g; s|@POD_CIDR@|$pod_cidr|g; s|@DNS_IP@|$dns_ip|g" \
    -e "s|@CGROUP@|$(cgroup)|g; s|@CA@|$(base64 -w0 "$state/pki/ca.crt" 2>/dev/null)|g" "$here/node/$1"
}

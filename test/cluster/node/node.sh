# Sourced by the scripts of a node: where it is, and its files filled in.
# shellcheck shell=bash disable=SC2034,SC2154  # for the scripts that source this; here, state, built come from lib.sh

bin=$built # all of one version
# Set aside for benchmarks (RFC 2544): no real network answers there.
node_ip=198.18.0.1
# As kind has them, for which config/presets/kind.yaml is.
pod_cidr=10.244.0.0/24
service_cidr=10.96.0.0/16
dns_ip=10.96.0.10

ctr() { command ctr --address "$state/containerd.sock" --namespace k8s.io "$@"; }

# The cgroup that holds the pods of this state folder and of no other kubelet.
cgroup() { echo "latchkey-$(sha256sum <<<"$state" | cut -c1-8)"; }

render() { # file: with its @PLACEHOLDERS@ filled in
  sed -e "s|@STATE@|$state|g; s|@NODE_IP@|$node_ip|g; s|@POD_CIDR@|$pod_cidr|g; s|@DNS_IP@|$dns_ip|g" \
    -e "s|@CGROUP@|$(cgroup)|g; s|@CA@|$(base64 -w0 "$state/pki/ca.crt" 2>/dev/null)|g" "$here/node/$1"
}

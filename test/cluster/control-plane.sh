# Sourced by up and node/up: etcd, API server and controller manager.
# shellcheck shell=bash disable=SC2154  # state, bin come from lib.sh; service_cidr, server_flags, controller_flags from the caller

make_identities() { # ip server: of the API server, the administrator and the controller manager
  local names=DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc
  make_ca
  leaf apiserver /CN=kube-apiserver "IP:127.0.0.1,IP:$1,IP:${service_cidr%.*}.1,$names,DNS:kubernetes.default.svc.cluster.local"
  leaf admin /O=system:masters/CN=admin
  leaf controller-manager /CN=system:kube-controller-manager
  kubeconfig admin "$2"
  kubeconfig controller-manager "$2"
}

start_control_plane() { # ip etcd-port etcd-peer-port api-port
  local etcd=http://127.0.0.1:$2
  start etcd "$bin/etcd" --data-dir "$state/etcd" --unsafe-no-fsync --log-level warn --listen-client-urls "$etcd" \
    --advertise-client-urls "$etcd" --listen-peer-urls "http://127.0.0.1:$3"
  start apiserver "$bin/kube-apiserver" --etcd-servers="$etcd" --bind-address="$1" --secure-port="$4" \
    --advertise-address="$1" --service-cluster-ip-range="$service_cidr" --client-ca-file="$state/pki/ca.crt" \
    --tls-cert-file="$state/pki/apiserver.crt" --tls-private-key-file="$state/pki/apiserver.key" \
    --service-account-issuer=https://kubernetes.default.svc.cluster.local \
    --service-account-key-file="$state/pki/service-accounts.key" \
    --service-account-signing-key-file="$state/pki/service-accounts.key" "${server_flags[@]}"
  wait_while_alive 60 'the API server' kubectl get --raw /readyz

  # The default of 20 requests a second would cost four seconds at start.
  start controller-manager "$bin/kube-controller-manager" --kubeconfig="$state/controller-manager.kubeconfig" \
    --secure-port=0 --leader-elect=false --use-service-account-credentials --kube-api-qps=200 --kube-api-burst=400 \
    --root-ca-file="$state/pki/ca.crt" --service-account-private-key-file="$state/pki/service-accounts.key" \
    --cluster-signing-cert-file="$state/pki/ca.crt" --cluster-signing-key-file="$state/pki/ca.key" "${controller_flags[@]}"
}

# The controller manager creates it; until then no pod can be created.
wait_for_accounts() { wait_while_alive 30 'the default service account' kubectl get serviceaccount default; }

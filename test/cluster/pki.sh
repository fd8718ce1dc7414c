# Sourced by up: one CA for everything, certificates, kubeconfigs.
# shellcheck shell=bash disable=SC2154  # state comes from lib.sh

make_ca() {
  mkdir -p "$state/pki"
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 365 -subj /CN=test-ca \
    -keyout "$state/pki/ca.key" -out "$state/pki/ca.crt" 2>/dev/null
  # "EC PRIVATE KEY", not PKCS #8: the API server reads the public key from this file, and only in that form.
  openssl ecparam -name prime256v1 -genkey -noout -out "$state/pki/service-accounts.key"
}

leaf() { # name subject [alternative-names]
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "$2" -keyout "$state/pki/$1.key" 2>/dev/null |
    openssl x509 -req -days 365 -CA "$state/pki/ca.crt" -CAkey "$state/pki/ca.key" -out "$state/pki/$1.crt" \
      -extfile <(echo "extendedKeyUsage=clientAuth,serverAuth"; [ -z "${3:-}" ] || echo "subjectAltName=$3") 2>/dev/null
}

kubeconfig() { # name server: the user is the certificate of that name
  cat >"$state/$1.kubeconfig" <<YAML
apiVersion: v1
kind: Config
current-context: test
clusters: [{name: test, cluster: {server: "$2", certificate-authority-data: $(base64 -w0 "$state/pki/ca.crt")}}]
contexts: [{name: test, context: {cluster: test, user: $1}}]
users:
- name: $1
  user:
    client-certificate-data: $(base64 -w0 "$state/pki/$1.crt")
    client-key-data: $(base64 -w0 "$state/pki/$1.key")
YAML
  chmod 600 "$state/$1.kubeconfig"
}

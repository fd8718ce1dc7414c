module latchkey.test/crds

go 1.25.0

// Of these only files are used, see ../../definitions.
require (
	github.com/kedacore/keda/v2 v2.20.2
	github.com/prometheus-operator/prometheus-operator v0.85.0
	sigs.k8s.io/gateway-api v1.4.0
)

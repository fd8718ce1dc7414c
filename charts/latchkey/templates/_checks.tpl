{{/* Checks that values.schema.json cannot express. */}}
{{- define "latchkey.checks" -}}
{{- $values := .Values -}}
{{- range $store := list "database" "redis" -}}
{{- $of := get $values $store -}}
{{- if and (not $of.existingSecret) (not $of.url) -}}
{{- fail (printf "%s.existingSecret is missing: the name of a Secret whose key %q holds the URL" $store $of.key) -}}
{{- end -}}
{{- if and $of.tls.ca.existingSecret $of.tls.ca.existingConfigMap -}}
{{- fail (printf "%s.tls.ca: existingSecret and existingConfigMap are both set: set only one" $store) -}}
{{- end -}}
{{- if and $of.existingSecret $of.url -}}
{{- fail (printf "%s.existingSecret and %s.url are both set: set only one" $store $store) -}}
{{- end -}}
{{- end -}}
{{- $redisTls := $values.redis.tls -}}
{{- if and $values.redis.url (not (hasPrefix "rediss" $values.redis.url)) (or $redisTls.ca.existingSecret $redisTls.ca.existingConfigMap $redisTls.clientCertificate.existingSecret $redisTls.serverName) -}}
{{- fail "redis.tls contradicts redis.url, which is not encrypted: use a rediss URL" -}}
{{- end -}}
{{- if and (not $values.keyRing.existingSecret) (not $values.keyRing.generate) -}}
{{- fail "keyRing.existingSecret is missing, and keyRing.generate is false: set one of them" -}}
{{- end -}}
{{- $wait := add (int64 $values.migration.waitSeconds) 60 -}}
{{- if and $values.migration.enabled (gt $wait (int64 $values.migration.deadlineSeconds)) -}}
{{- fail (printf "migration.deadlineSeconds is under %d: it must exceed migration.waitSeconds by 60 s, so that the Job can log why Postgres cannot be used" $wait) -}}
{{- end -}}
{{- range $process := list "api" "forwarder" "operator" "backoffice" "migration" -}}
{{- range concat $values.extraEnv (get $values $process).extraEnv -}}
{{- if regexMatch "^(LATCHKEY_|IDEMPOTENCY_MAX_|OTEL_EXPORTER_OTLP_(ENDPOINT|HEADERS)$|OTEL_TRACES_SAMPLER_ARG$)" .name -}}
{{- fail (printf "extraEnv: %s is a setting of Latchkey: use its own value, see config in values.yaml" .name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $keda := and (eq $values.forwarder.autoscaling.mode "keda") -}}
{{- if and $keda (not $values.forwarder.autoscaling.keda.serverAddress) -}}
{{- fail "forwarder.autoscaling.keda.serverAddress is missing: set the URL of Prometheus" -}}
{{- end -}}
{{- if and (eq $values.forwarder.autoscaling.mode "hpa") (not $values.forwarder.autoscaling.hpa.selector) -}}
{{- fail "forwarder.autoscaling.hpa.selector is missing: select the series of this release, for example by matchLabels: {namespace: latchkey}" -}}
{{- end -}}
{{- if and (ne $values.forwarder.autoscaling.mode "none") (not $values.backoffice.enabled) -}}
{{- fail "forwarder.autoscaling needs backoffice.enabled: its metrics must not come from the forwarders that they scale" -}}
{{- end -}}
{{- range $process := list "api" "forwarder" -}}
{{- $scaling := (get $values $process).autoscaling -}}
{{- if gt (int64 $scaling.minReplicas) (int64 $scaling.maxReplicas) -}}
{{- fail (printf "%s.autoscaling: minReplicas is over maxReplicas" $process) -}}
{{- end -}}
{{- end -}}
{{- if and $values.metrics.podMonitor.enabled $values.metrics.serviceMonitor.enabled -}}
{{- fail "metrics.podMonitor and metrics.serviceMonitor are both enabled: every series would count twice" -}}
{{- end -}}
{{- if and (eq $values.rbac.scope "namespaces") $values.operator.enabled -}}
{{- if not $values.operator.namespaces -}}
{{- fail "rbac.scope namespaces needs operator.namespaces: list the namespaces that the operator follows" -}}
{{- end -}}
{{- if $values.operator.secrets.clusterWide -}}
{{- fail "rbac.scope namespaces excludes operator.secrets.clusterWide: disable one of them" -}}
{{- end -}}
{{- end -}}
{{- range $path, $of := dict "" $values "backoffice." $values.backoffice -}}
{{- if and $of.httpRoute.enabled (not $of.httpRoute.parentRefs) -}}
{{- fail (printf "%shttpRoute.parentRefs is missing: name the gateway" $path) -}}
{{- end -}}
{{- if and $of.ingress.enabled (not $of.ingress.hosts) -}}
{{- fail (printf "%singress.hosts is missing: list at least one host name" $path) -}}
{{- end -}}
{{- end -}}
{{- $backoffice := $values.backoffice -}}
{{- if and $backoffice.httpRoute.enabled (not $backoffice.httpRoute.hostnames) -}}
{{- fail "backoffice.httpRoute.hostnames is missing: without host names the route would match every host of the gateway, including public ones" -}}
{{- end -}}
{{- $public := include "latchkey.hosts" $values | splitList " " -}}
{{- range $host := include "latchkey.hosts" $backoffice | splitList " " -}}
{{- range $open := $public -}}
{{- if and $host (or (eq $host $open) (and (hasPrefix "*." $host) (hasSuffix (trimPrefix "*" $host) $open))) -}}
{{- fail (printf "backoffice: %s is or covers the public host %s: give the backoffice one of its own" $host $open) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Host names of the enabled Ingress and HTTPRoute of .Values or .Values.backoffice, separated by spaces. */}}
{{- define "latchkey.hosts" -}}
{{- $hosts := concat (ternary .ingress.hosts list .ingress.enabled) (ternary .httpRoute.hostnames list .httpRoute.enabled) -}}
{{- join " " $hosts | lower -}}
{{- end -}}

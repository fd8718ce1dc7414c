{{/*
Environment of a process: (dict "root" $ "name" "api" "values" .Values.api). Contains only settings that the process uses.
Templates see numbers as floats: int64 keeps large ones from being printed as 1e+06.
*/}}
{{- define "latchkey.env" -}}
{{- $config := .root.Values.config -}}
{{- $serves := ne .name "migrate" -}}
{{- if and (eq .name "migrate") .root.Values.migration.existingSecret }}
{{ include "latchkey.fromSecret" (dict "env" "LATCHKEY_DATABASE_URL" "secret" .root.Values.migration.existingSecret "key" .root.Values.migration.key) }}
{{- else if and (eq .name "migrate") (eq (include "latchkey.migrationSecret" .root) "true") }}
{{ include "latchkey.fromSecret" (dict "env" "LATCHKEY_DATABASE_URL" "secret" (printf "%s-migrate" (include "latchkey.fullname" .root)) "key" "databaseUrl") }}
{{- else }}
{{ include "latchkey.fromSecret" (dict "env" "LATCHKEY_DATABASE_URL" "secret" (.root.Values.database.existingSecret | default (include "latchkey.storesSecret" .root)) "key" (ternary .root.Values.database.key "databaseUrl" (not (empty .root.Values.database.existingSecret)))) }}
{{- end }}
{{- if $serves }}
{{ include "latchkey.fromSecret" (dict "env" "LATCHKEY_REDIS_URL" "secret" (.root.Values.redis.existingSecret | default (include "latchkey.storesSecret" .root)) "key" (ternary .root.Values.redis.key "redisUrl" (not (empty .root.Values.redis.existingSecret)))) }}
{{ include "latchkey.fromSecret" (dict "env" "LATCHKEY_KEY_RING" "secret" (include "latchkey.keyRingSecret" .root) "key" (ternary .root.Values.keyRing.key "keyRing" (not (empty .root.Values.keyRing.existingSecret)))) }}
{{- end }}
{{- with (include "latchkey.storesTls" . | fromJson).env }}
{{ toYaml . }}
{{- end }}
{{- if not $serves }}
{{- $wait := .root.Values.migration.waitSeconds | int64 }}
- name: LATCHKEY_MIGRATE_WAIT_SECONDS
  value: {{ .root.Release.IsUpgrade | ternary (min $wait 30) $wait | quote }}
{{- end }}
- name: LATCHKEY_LOG_LEVEL
  value: {{ $config.logLevel | quote }}
{{- if $serves }}
- name: LATCHKEY_SHUTDOWN_GRACE_SECONDS
  value: {{ .values.shutdownGraceSeconds | int64 | quote }}
{{- /* Memory in bytes to which the garbage collector adapts: the limit, or the node's memory if there is none. */}}
- name: BUN_JSC_forceRAMSize
  valueFrom:
    resourceFieldRef: {resource: limits.memory}
{{- end }}
{{- if eq .name "api" }}
- name: LATCHKEY_SHUTDOWN_DELAY_SECONDS
  value: {{ .values.shutdownDelaySeconds | int64 | quote }}
- name: IDEMPOTENCY_MAX_RECORD_TTL_SECONDS
  value: {{ $config.recordTtlSecondsMax | int64 | quote }}
- name: IDEMPOTENCY_MAX_RECORD_BODY_BYTES
  value: {{ $config.recordBodyBytesMax | int64 | quote }}
- name: LATCHKEY_SIGNATURE_MAX_AGE_SECONDS
  value: {{ $config.signatureMaxAgeSeconds | int64 | quote }}
- name: LATCHKEY_REDIS_SPOOL_DURABLE
  value: {{ $config.redisSpoolDurable | quote }}
{{- end }}
{{- if and (has .name (list "api" "backoffice")) $config.trustedProxies }}
- name: LATCHKEY_TRUSTED_PROXIES
  value: {{ join "," $config.trustedProxies | quote }}
{{- end }}
{{- if and (has .name (list "forwarder" "operator" "backoffice")) $config.callbackCidrsMax }}
- name: LATCHKEY_CALLBACK_CIDRS_MAX
  value: {{ join "," $config.callbackCidrsMax | quote }}
{{- end }}
{{- if and (has .name (list "forwarder" "operator" "backoffice")) $config.callbackPorts }}
{{- $ports := list }}
{{- range $config.callbackPorts }}{{ $ports = append $ports (int64 . | toString) }}{{ end }}
- name: LATCHKEY_CALLBACK_PORTS
  value: {{ join "," $ports | quote }}
{{- end }}
{{- if and $serves $config.egressProxy }}
- name: LATCHKEY_EGRESS_PROXY
  value: {{ $config.egressProxy | quote }}
{{- end }}
{{- if and (has .name (list "api" "operator" "backoffice")) $config.publicUrl }}
- name: LATCHKEY_PUBLIC_URL
  value: {{ $config.publicUrl | quote }}
{{- end }}
{{- /* The backoffice leads to its own pages by default. */}}
{{- $docsUrl := $config.docsUrl }}
{{- if and (eq .name "api") (not $docsUrl) }}
{{- $docsUrl = include "latchkey.ownDocsUrl" .root }}
{{- end }}
{{- if and (has .name (list "api" "backoffice")) $docsUrl }}
- name: LATCHKEY_DOCS_URL
  value: {{ $docsUrl | quote }}
{{- end }}
{{- if eq .name "operator" }}
- name: LATCHKEY_OPERATOR_NAMESPACES
  value: {{ join "," .values.namespaces | default "*" | quote }}
- name: LATCHKEY_OPERATOR_SECRETS_CLUSTER_WIDE
  value: {{ .values.secrets.clusterWide | quote }}
{{- if .root.Values.keyRing.replacesLost }}
- name: LATCHKEY_KEY_RING_REPLACES_LOST
  value: "true"
{{- end }}
{{- end }}
{{- if and $serves $config.traces.endpoint }}
- name: OTEL_EXPORTER_OTLP_ENDPOINT
  value: {{ $config.traces.endpoint | quote }}
{{- with $config.traces.headersSecret }}
{{ include "latchkey.fromSecret" (dict "env" "OTEL_EXPORTER_OTLP_HEADERS" "secret" . "key" $config.traces.headersKey) }}
{{- end }}
- name: OTEL_TRACES_SAMPLER_ARG
  value: {{ $config.traces.sampleShare | quote }}
{{- end }}
{{- end -}}

{{/* Address of the documentation that the backoffice serves, by the first host of its ingress; empty if the chart does not know it. */}}
{{- define "latchkey.ownDocsUrl" -}}
{{- $ingress := .Values.backoffice.ingress -}}
{{- $hosts := list -}}
{{- range $ingress.hosts }}{{ if not (contains "*" .) }}{{ $hosts = append $hosts . }}{{ end }}{{ end -}}
{{- if and .Values.backoffice.enabled $ingress.enabled $hosts -}}
{{ ternary "https" "http" (not (empty $ingress.tls)) }}://{{ first $hosts }}/docs
{{- end -}}
{{- end -}}

{{/* "true" if the migration before an upgrade needs a Secret of its own: the Secret of the stores still contains the old URL then. */}}
{{- define "latchkey.migrationSecret" -}}
{{- if and .Release.IsUpgrade .Values.database.url (not .Values.migration.existingSecret) -}}
true
{{- end -}}
{{- end -}}

{{- define "latchkey.fromSecret" -}}
- name: {{ .env }}
  valueFrom:
    secretKeyRef:
      name: {{ .secret }}
      key: {{ .key }}
{{- end -}}

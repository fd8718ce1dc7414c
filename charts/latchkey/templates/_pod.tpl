{{/*
Pod template of a process: (dict "root" $ "name" "api" "values" .Values.api), and optionally
  args        arguments of the program; default: the name of the process
  serves      true for long-running processes: adds probes, ports, a preStop hook and the sidecars of all processes
  token       true if it calls the API server
  isBare      true if it needs no settings and none of the extra environment and init containers of all processes
A Job gets no sidecars of all processes: it would never complete.
*/}}
{{- define "latchkey.pod" -}}
{{- $root := .root -}}
{{- $values := .values -}}
{{- $all := $root.Values -}}
{{- $tls := dict "volumes" list -}}
{{- if not .isBare }}{{ $tls = include "latchkey.storesTls" . | fromJson }}{{ end -}}
metadata:
  labels:
    {{- include "latchkey.podLabels" . | nindent 4 }}
    {{- with merge (dict) ($values.podLabels | default dict) $all.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    kubectl.kubernetes.io/default-container: latchkey
    {{- if and .serves $all.metrics.scrapeAnnotations }}
    prometheus.io/scrape: "true"
    prometheus.io/port: "9090"
    prometheus.io/path: /metrics
    {{- end }}
    {{- if or $all.database.url $all.redis.url }}
    checksum/stores: {{ printf "%s %s" $all.database.url $all.redis.url | sha256sum | trunc 16 }}
    {{- end }}
    {{- with merge (dict) ($values.podAnnotations | default dict) $all.podAnnotations $all.commonAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  {{- /* Otherwise a Service named latchkey-api injects LATCHKEY_API_PORT=tcp://… */}}
  enableServiceLinks: false
  automountServiceAccountToken: {{ .token | default false }}
  serviceAccountName: {{ .serviceAccount | default (include "latchkey.serviceAccount" .) }}
  {{- with concat $all.global.imagePullSecrets $all.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    {{- toYaml $all.podSecurityContext | nindent 4 }}
  {{- with $values.priorityClassName | default $all.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- if .serves }}
  terminationGracePeriodSeconds: {{ add ($values.preStopSeconds | default 0) $values.shutdownGraceSeconds 5 }}
  {{- else }}
  restartPolicy: Never
  {{- end }}
  {{- with merge (dict) ($values.nodeSelector | default dict) $all.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with concat $all.tolerations ($values.tolerations | default list) }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.affinity | default $all.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if and .serves $all.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- $selector := include "latchkey.selector" . | fromYaml }}
    {{- range $all.topologySpreadConstraints }}
    - {{ toYaml . | nindent 6 | trim }}
      labelSelector:
        matchLabels:
          {{- toYaml $selector | nindent 10 }}
      matchLabelKeys: [pod-template-hash]
    {{- end }}
  {{- end }}
  {{- with concat (ternary list $all.extraInitContainers (.isBare | default false)) ($values.extraInitContainers | default list) }}
  initContainers:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: latchkey
      {{- include "latchkey.container" . | nindent 6 }}
    {{- with concat (ternary $all.extraContainers list (.serves | default false)) ($values.extraContainers | default list) }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with concat $tls.volumes $all.extraVolumes ($values.extraVolumes | default list) }}
  volumes:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{- define "latchkey.container" -}}
{{- $values := .values -}}
{{- $all := .root.Values -}}
image: {{ include "latchkey.image" .root }}
imagePullPolicy: {{ $all.image.pullPolicy }}
args:
  {{- toYaml (.args | default (list .name)) | nindent 2 }}
{{- $extraEnv := concat $all.extraEnv ($values.extraEnv | default list) }}
{{- if or $extraEnv (not .isBare) }}
env:
  {{- if not .isBare }}
  {{- include "latchkey.env" . | trim | nindent 2 }}
  {{- end }}
  {{- with $extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- with concat (ternary list $all.extraEnvFrom (.isBare | default false)) ($values.extraEnvFrom | default list) }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if .serves }}
ports:
  {{- with get (dict "api" 8080 "backoffice" 8081) .name }}
  - name: http
    containerPort: {{ . }}
  {{- end }}
  - name: ops
    containerPort: 9090
{{- /* A slow node may take a minute to start the process. Afterwards /livez fails when a loop hangs, and never because of a store. */}}
startupProbe:
  httpGet: {path: /livez, port: ops}
  periodSeconds: 1
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /livez, port: ops}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
{{- /* Fails until the database has the required schema, and during shutdown. */}}
readinessProbe:
  httpGet: {path: /readyz, port: ops}
  periodSeconds: 2
  timeoutSeconds: 3
  failureThreshold: 2
{{- if $values.preStopSeconds }}
lifecycle:
  preStop:
    sleep: {seconds: {{ $values.preStopSeconds | int64 }}}
{{- end }}
{{- end }}
resources:
  {{- toYaml $values.resources | nindent 2 }}
securityContext:
  {{- toYaml $all.containerSecurityContext | nindent 2 }}
{{- $tls := dict "mounts" list }}
{{- if not .isBare }}{{ $tls = include "latchkey.storesTls" . | fromJson }}{{ end }}
{{- with concat $tls.mounts $all.extraVolumeMounts ($values.extraVolumeMounts | default list) }}
volumeMounts:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

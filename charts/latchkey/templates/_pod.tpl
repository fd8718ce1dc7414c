{{/*
A pod of ours: (dict "root" $ "name" "api" "values" .Values.api), and
  args        of latchkey; by default the process' name
  serves      whether it has probes, ports and a preStop
  token       whether it talks to the API server
  isBare      whether it does without settings, and so without what is put beside all processes
What serves alone gets the containers of all processes: beside a Job they would never end.
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
  {{- /* A Service named latchkey-api would otherwise inject LATCHKEY_API_PORT=tcp://… */}}
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
{{- /* Begins late where the node is slow. Then it is restarted when a loop hangs; a store that is away makes it neither. */}}
startupProbe:
  httpGet: {path: /livez, port: ops}
  periodSeconds: 1
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /livez, port: ops}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
{{- /* Not before the schema is the one that it needs, and not while it ends. */}}
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

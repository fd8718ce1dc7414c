{{- define "latchkey.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* Prefix of all object names. At most 40 characters, so that names with a suffix stay below 63. */}}
{{- define "latchkey.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "latchkey.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Labels that select the pods of a process: (dict "root" $ "name" "api"). Must never change: selectors are immutable. */}}
{{- define "latchkey.selector" -}}
app.kubernetes.io/name: {{ include "latchkey.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .name }}
{{- end -}}

{{/* Labels of pods. Contains no version, whose change would restart pods without need. */}}
{{- define "latchkey.podLabels" -}}
{{ include "latchkey.selector" . }}
app.kubernetes.io/part-of: latchkey
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "latchkey.labels" -}}
{{ include "latchkey.selector" . }}
app.kubernetes.io/part-of: latchkey
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Metadata of an object: (dict "root" $ "name" "api" "object" "its name" "labels" {} "annotations" {}). */}}
{{- define "latchkey.metadata" -}}
name: {{ .object }}
{{- if not .isClusterWide }}
namespace: {{ .namespace | default .root.Release.Namespace }}
{{- end }}
labels:
  {{- include "latchkey.labels" . | nindent 2 }}
  {{- with .labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with merge (dict) (.annotations | default dict) .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "latchkey.image" -}}
{{- $image := .Values.image -}}
{{- $registry := .Values.global.imageRegistry | default $image.registry -}}
{{- $name := ternary (printf "%s/%s" $registry $image.repository) $image.repository (not (empty $registry)) -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $name $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $name ($image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/* Service account of a process: (dict "root" $ "name" "api" "values" .Values.api). */}}
{{- define "latchkey.serviceAccount" -}}
{{- $account := .values.serviceAccount -}}
{{- if $account.name -}}
{{- $account.name -}}
{{- else if $account.create -}}
{{- printf "%s-%s" (include "latchkey.fullname" .root) .name -}}
{{- else -}}
default
{{- end -}}
{{- end -}}

{{- define "latchkey.storesSecret" -}}
{{- include "latchkey.fullname" . }}-stores
{{- end -}}

{{- define "latchkey.keyRingSecret" -}}
{{- .Values.keyRing.existingSecret | default (printf "%s-key-ring" (include "latchkey.fullname" .)) -}}
{{- end -}}

{{/* Values of the enabled processes by name, as JSON. */}}
{{- define "latchkey.processes" -}}
{{- $processes := dict "api" .Values.api "forwarder" .Values.forwarder -}}
{{- if .Values.operator.enabled }}{{ $_ := set $processes "operator" .Values.operator }}{{ end -}}
{{- if .Values.backoffice.enabled }}{{ $_ := set $processes "backoffice" .Values.backoffice }}{{ end -}}
{{- toJson $processes -}}
{{- end -}}

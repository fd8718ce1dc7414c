{{/* patch of tenants: the finalizer, and taking away latchkey.dev/resume-callback. */}}
{{- define "latchkey.tenantRules" -}}
- apiGroups: [latchkey.dev]
  resources: [tenants]
  verbs: [get, list, watch, patch]
- apiGroups: [latchkey.dev]
  resources: [tenants/status]
  verbs: [patch]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end -}}

{{/* Reads those that Tenants name, makes and mends those that it generates, deletes none: their owner references do that. */}}
{{- define "latchkey.secretRules" -}}
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, list, watch, create, patch]
{{- end -}}

{{/* Whether the backoffice is given the right to ask the API server about people: "true" or nothing. That right is the cluster's. */}}
{{- define "latchkey.reviews" -}}
{{- if and .Values.backoffice.enabled .Values.rbac.create (eq .Values.rbac.scope "cluster") -}}
true
{{- end -}}
{{- end -}}

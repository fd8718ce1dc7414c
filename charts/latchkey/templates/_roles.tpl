{{/* patch on providers and tenants: to set the finalizer and to remove the annotation latchkey.dev/resume-callback. */}}
{{- define "latchkey.providerRules" -}}
- apiGroups: [latchkey.dev]
  resources: [providers]
  verbs: [get, list, watch, patch]
- apiGroups: [latchkey.dev]
  resources: [providers/status]
  verbs: [patch]
{{- end -}}

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

{{/* Reads the Secrets that Tenants reference, creates and repairs generated ones. No delete: owner references do that. */}}
{{- define "latchkey.secretRules" -}}
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, list, watch, create, patch]
{{- end -}}

{{/* "true" if the backoffice may call the token and access reviews of the API server, which needs a ClusterRoleBinding. */}}
{{- define "latchkey.reviews" -}}
{{- if and .Values.backoffice.enabled .Values.rbac.create (eq .Values.rbac.scope "cluster") -}}
true
{{- end -}}
{{- end -}}

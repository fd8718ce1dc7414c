{{/*
TLS files of a process: (dict "root" $ "name" "api"). Returns volumes, mounts and env as JSON. Mounts whole folders, since files mounted
by subPath are not updated after a rotation.
*/}}
{{- define "latchkey.storesTls" -}}
{{- $root := .root -}}
{{- $isMigration := eq .name "migrate" -}}
{{- $volumes := list -}}
{{- $mounts := list -}}
{{- $env := list -}}
{{- range $store := $isMigration | ternary (list "database") (list "database" "redis") -}}
{{- $tls := (get $root.Values $store).tls -}}
{{- $setting := printf "LATCHKEY_%s_TLS" (upper $store) -}}
{{- if or $tls.ca.existingSecret $tls.ca.existingConfigMap -}}
{{- $volume := printf "%s-tls-ca" $store -}}
{{- $folder := printf "/etc/latchkey/%s" $volume -}}
{{- $items := list (dict "key" $tls.ca.key "path" "ca.crt") -}}
{{- if $tls.ca.existingSecret -}}
{{- $volumes = append $volumes (dict "name" $volume "secret" (dict "secretName" $tls.ca.existingSecret "items" $items)) -}}
{{- else -}}
{{- $volumes = append $volumes (dict "name" $volume "configMap" (dict "name" $tls.ca.existingConfigMap "items" $items)) -}}
{{- end -}}
{{- $mounts = append $mounts (dict "name" $volume "mountPath" $folder "readOnly" true) -}}
{{- $env = append $env (dict "name" (printf "%s_CA_FILE" $setting) "value" (printf "%s/ca.crt" $folder)) -}}
{{- end -}}
{{- $client := $tls.clientCertificate.existingSecret -}}
{{- if $isMigration }}{{ $client = $root.Values.migration.clientCertificate.existingSecret | default $client }}{{ end -}}
{{- if $client -}}
{{- $volume := printf "%s-tls-client" $store -}}
{{- $folder := printf "/etc/latchkey/%s" $volume -}}
{{- $items := list (dict "key" "tls.crt" "path" "tls.crt") (dict "key" "tls.key" "path" "tls.key") -}}
{{- $volumes = append $volumes (dict "name" $volume "secret" (dict "secretName" $client "items" $items)) -}}
{{- $mounts = append $mounts (dict "name" $volume "mountPath" $folder "readOnly" true) -}}
{{- $env = append $env (dict "name" (printf "%s_CERT_FILE" $setting) "value" (printf "%s/tls.crt" $folder)) -}}
{{- $env = append $env (dict "name" (printf "%s_KEY_FILE" $setting) "value" (printf "%s/tls.key" $folder)) -}}
{{- end -}}
{{- if $tls.serverName -}}
{{- $env = append $env (dict "name" (printf "%s_SERVER_NAME" $setting) "value" $tls.serverName) -}}
{{- end -}}
{{- end -}}
{{- toJson (dict "volumes" $volumes "mounts" $mounts "env" $env) -}}
{{- end -}}

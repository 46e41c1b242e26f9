{{- define "tideline.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* At most 52 characters, because the pod name and a hash must fit into a label. */ -}}
{{- define "tideline.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else if contains (include "tideline.name" .) .Release.Name }}
{{- .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "tideline.name" .) | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "tideline.selectorLabels" -}}
app.kubernetes.io/name: {{ include "tideline.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tideline.labels" -}}
{{ include "tideline.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: daemon
app.kubernetes.io/part-of: tideline
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "tideline.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{- define "tideline.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "tideline.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- /* Configuration of the daemon: settings that the pod requires, overridden by the user's values. */ -}}
{{- define "tideline.config" -}}
{{- $pod := dict "state" (dict "dir" "/var/lib/tideline") "http" (dict "host" "0.0.0.0" "port" 8470) }}
{{- range $name, $_ := .Values.config.serve }}
{{- $_ := set $pod "serve" (merge (dict $name (dict "listen" "0.0.0.0:9083")) ($pod.serve | default dict)) }}
{{- end }}
{{- mergeOverwrite $pod (deepCopy .Values.config) | toYaml }}
{{- end }}

{{- /* The ports of the metastore endpoints that the daemon runs: their number, by name. */ -}}
{{- define "tideline.servePorts" -}}
{{- $ports := dict }}
{{- range $name, $serve := (include "tideline.config" . | fromYaml).serve }}
{{- if ne (toString $serve.run) "false" }}
{{- $_ := set $ports (printf "metastore-%d" (len $ports)) ($serve.listen | splitList ":" | last | int) }}
{{- end }}
{{- end }}
{{- toYaml $ports }}
{{- end }}

{{- define "tideline.httpPort" -}}
{{- (include "tideline.config" . | fromYaml).http.port | int }}
{{- end }}

{{- define "tideline.stateDir" -}}
{{- (include "tideline.config" . | fromYaml).state.dir }}
{{- end }}

{{- define "tideline.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "tideline.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "tideline.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* At most 52 characters, because the pod name and a hash must fit into a label. Names of services start with a letter,
       and names of releases need not. */ -}}
{{- define "tideline.fullname" -}}
{{- $name := printf "%s-%s" .Release.Name (include "tideline.name" .) }}
{{- if .Values.fullnameOverride }}
{{- $name = .Values.fullnameOverride }}
{{- else if contains (include "tideline.name" .) .Release.Name }}
{{- $name = .Release.Name }}
{{- end }}
{{- if not (regexMatch "^[a-z]" $name) }}
{{- $name = printf "tideline-%s" $name }}
{{- end }}
{{- $name | trunc 52 | trimSuffix "-" }}
{{- end }}

{{- define "tideline.headless" -}}
{{- printf "%s-headless" (include "tideline.fullname" .) }}
{{- end }}

{{- define "tideline.selectorLabels" -}}
app.kubernetes.io/name: {{ include "tideline.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
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
{{- $tokens := dict "view" (dict "file" "/etc/tideline-tokens/view") "operate" (dict "file" "/etc/tideline-tokens/operate" "role" "operate") }}
{{- $http := dict "host" "0.0.0.0" "port" 8470 "probes_host" "0.0.0.0" "probes_port" 8471 "tokens" $tokens }}
{{- if .Values.ingress.enabled }}
{{- $_ := set $http "names" (list .Values.ingress.host) }}
{{- end }}
{{- $pod := dict "state" (dict "dir" "/var/lib/tideline") "http" $http }}
{{- if gt (.Values.replicas | int) 1 }}
{{- $_ := set $pod "daemons" (dict "count" (.Values.replicas | int)) }}
{{- end }}
{{- range $name, $_ := .Values.config.serve }}
{{- $_ := set $pod "serve" (merge (dict $name (dict "listen" "0.0.0.0:9083")) ($pod.serve | default dict)) }}
{{- end }}
{{- if .Values.spark.executors }}
{{- range $name, $table := .Values.config.flat }}
{{- if hasPrefix "k8s://" (toString (dig "spark" "master" "" $table)) }}
{{- $spark := dict "spark" (dict "conf" (include "tideline.executorConf" $ | fromYaml)) }}
{{- $_ := set $pod "flat" (merge (dict $name $spark) ($pod.flat | default dict)) }}
{{- end }}
{{- end }}
{{- range $section := list "policies" "policy_patterns" }}
{{- range $name, $policy := index $.Values.config $section }}
{{- if hasPrefix "k8s://" (toString (dig "copy_jobs" "spark" "master" "" $policy)) }}
{{- $jobs := dict "copy_jobs" (dict "spark" (dict "conf" (include "tideline.executorConf" $ | fromYaml))) }}
{{- $_ := set $pod $section (merge (dict $name $jobs) (index $pod $section | default dict)) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- mergeOverwrite $pod (deepCopy .Values.config) | toYaml }}
{{- end }}

{{- /* Where executors run: a namespace without the daemon's secrets, because an account that may create pods can mount all secrets of
       its namespace. */ -}}
{{- define "tideline.executorNamespace" -}}
{{- $name := .Values.spark.namespace }}
{{- if not $name }}
{{- $name = printf "%s-%s" .Release.Namespace (include "tideline.fullname" .) | trimPrefix "-" }}
{{- if gt (len $name) 53 }}
{{- $name = printf "%s-%s" ($name | trunc 44 | trimSuffix "-") ($name | sha256sum | trunc 8) }}
{{- end }}
{{- $name = printf "%s-executors" $name }}
{{- end }}
{{- if eq $name .Release.Namespace }}
{{- fail "spark.namespace must not be the namespace of the release: with the right to create pods there, the daemon could mount every secret of it" }}
{{- end }}
{{- $name }}
{{- end }}

{{- define "tideline.executorLabels" -}}
{{ include "tideline.selectorLabels" . }}
app.kubernetes.io/component: executor
{{- end }}

{{- /* Settings of Spark for executors as pods. */ -}}
{{- define "tideline.executorConf" -}}
spark.kubernetes.namespace: {{ include "tideline.executorNamespace" . | quote }}
spark.kubernetes.container.image: {{ include "tideline.image" . | quote }}
spark.kubernetes.executor.podTemplateFile: /etc/tideline/executor.yaml
{{- end }}

{{- /* Ports of drivers (streaming/driver/masters.py): for each of them one to which executors connect, and one for blocks. */ -}}
{{- define "tideline.driverPorts" -}}
- {port: 7100, endPort: 7163, protocol: TCP}
- {port: 7200, endPort: 7263, protocol: TCP}
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

{{- define "tideline.probesPort" -}}
{{- (include "tideline.config" . | fromYaml).http.probes_port | int }}
{{- end }}

{{- /* The secret with the tokens for HTTP: its keys view and operate. */ -}}
{{- define "tideline.tokenSecret" -}}
{{- .Values.httpTokens.existingSecret | default (printf "%s-http" (include "tideline.fullname" .)) }}
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

{{- /* The pod with the site, the API and the endpoints: of several daemons, number 0 runs everything that is not a policy. */ -}}
{{- define "tideline.firstPod" -}}
{{- if gt (.Values.replicas | int) 1 }}
apps.kubernetes.io/pod-index: "0"
{{- end }}
{{- end }}

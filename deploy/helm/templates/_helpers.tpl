{{- define "godwit.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "godwit.selector" -}}
app.kubernetes.io/name: godwit
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "godwit.labels" -}}
{{ include "godwit.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "godwit.secret" -}}
{{- default (include "godwit.name" .) .Values.existingSecret -}}
{{- end -}}

{{- define "godwit.scheme" -}}
{{- ternary "HTTPS" "HTTP" (ne .Values.tlsSecret "") -}}
{{- end -}}

{{- /* The nodes by the names that the headless service gives them. */ -}}
{{- define "godwit.peers" -}}
{{- $name := include "godwit.name" . -}}
{{- $peers := list -}}
{{- range $i := until (int .Values.replicas) -}}
{{- $peers = append $peers (printf "%s-%d.%s-nodes:6222" $name $i $name) -}}
{{- end -}}
{{- join "," $peers -}}
{{- end -}}

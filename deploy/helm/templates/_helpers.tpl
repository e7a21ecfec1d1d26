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

{{- /* Text of a value. Helm reads numbers as floating-point ones, of which it would write 1000000 as 1e+06. */ -}}
{{- define "godwit.text" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) -}}{{ int64 . }}{{- else -}}{{ . }}{{- end -}}
{{- end -}}

{{- /* Annotations and labels, whose values must be text whatever was written. */ -}}
{{- define "godwit.texts" -}}
{{- range $key, $value := . }}
{{ $key }}: {{ include "godwit.text" $value | quote }}
{{- end }}
{{- end -}}

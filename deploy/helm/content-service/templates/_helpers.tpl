{{- define "content-service.labels" -}}
app.kubernetes.io/name: content-service
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

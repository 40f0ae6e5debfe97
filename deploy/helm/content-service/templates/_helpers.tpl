{{- define "content-service.labels" -}}
app.kubernetes.io/name: content-service
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "content-service.files" -}}
{{- with .Values.files.existingSecret }}
- secret:
    name: {{ . }}
{{- end }}
{{- with .Values.files.existingConfigMap }}
- configMap:
    name: {{ . }}
{{- end }}
{{- end }}

{{- define "content-service.hasSeveralPods" -}}
{{- if or (and .Values.autoscaling.enabled (gt (int .Values.autoscaling.maxReplicas) 1)) (and (not .Values.autoscaling.enabled) (gt (int .Values.replicas) 1)) }}yes{{ end }}
{{- end }}

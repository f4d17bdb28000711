{{- define "zmeld-survey.name" -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "zmeld-survey.labels" -}}
app.kubernetes.io/name: {{ include "zmeld-survey.name" . }}
{{- end -}}

{{- define "zmeld-survey.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- /* "yes" where surveys go to a folder of the node. */ -}}
{{- define "zmeld-survey.isFolder" -}}
{{- if hasPrefix "/" .Values.place -}}yes{{- end -}}
{{- end -}}

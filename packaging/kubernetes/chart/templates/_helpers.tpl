{{- define "zmeld-survey.name" -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "zmeld-survey.labels" -}}
app.kubernetes.io/name: {{ include "zmeld-survey.name" . | quote }}
{{- end -}}

{{- define "zmeld-survey.image" -}}
{{- $image := .Values.image -}}
{{- $repository := required "image.repository is not set: no image is published, name the one that you built and pushed" $image.repository -}}
{{- if $image.digest -}}
{{ $repository }}@{{ $image.digest }}
{{- else -}}
{{ $repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- /* Classes belong to no namespace: two releases may not have the same one. */ -}}
{{- define "zmeld-survey.priorityClass" -}}
{{- $class := .Values.priorityClass -}}
{{- if $class.name -}}
{{ $class.name }}
{{- else if $class.create -}}
{{ .Release.Namespace }}.{{ include "zmeld-survey.name" . }}
{{- end -}}
{{- end -}}

{{- /* "yes" where surveys go to a folder of the node. */ -}}
{{- define "zmeld-survey.isFolder" -}}
{{- if hasPrefix "/" .Values.place -}}yes{{- end -}}
{{- end -}}

{{- define "seamark.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- /* The release's name, with the chart's in front unless one is part of the other. */ -}}
{{- define "seamark.fullname" -}}
{{- $name := include "seamark.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "seamark.selectorLabels" -}}
app.kubernetes.io/name: {{ include "seamark.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end -}}

{{- define "seamark.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 }}
{{ include "seamark.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: seamark
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "seamark.operatorAccount" -}}
{{- .Values.serviceAccount.name | default (printf "%s-operator" (include "seamark.fullname" .)) -}}
{{- end -}}

{{- define "seamark.sparkAccount" -}}
{{- .Values.spark.serviceAccount.name | default (printf "%s-spark" (include "seamark.fullname" .)) -}}
{{- end -}}

{{- /* As JSON: a template can only return text. */ -}}
{{- define "seamark.namespaces" -}}
{{- .Values.watchNamespaces | default (list .Release.Namespace) | toJson -}}
{{- end -}}

{{- /* Call with (dict "image" ... "version" ...). A digest is precise; the tag beside it is for people. */ -}}
{{- define "seamark.image" -}}
{{- with .image.registry }}{{ . }}/{{ end -}}
{{- .image.repository }}:{{ .image.tag | default .version -}}
{{- with .image.digest }}@{{ . }}{{ end -}}
{{- end -}}

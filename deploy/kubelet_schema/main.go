// Prints, as JSON, what the kubelet of this module's version accepts as configuration: every key of
// KubeletConfiguration v1beta1 with its type and default, and every feature gate with its default and stage.
//
// worker/settings/kubelet/schema.json is its output. It is read from the kubelet's own types by reflection and from its own
// defaulting, so nothing is copied by hand. Run it in a folder whose go.mod requires k8s.io/kubernetes, the one of the
// conformance scripts for example:
//
//	go run -mod=mod <here>/main.go 1.36.3 > worker/settings/kubelet/schema.json
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/apimachinery/pkg/api/resource"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	logs "k8s.io/component-base/logs/api/v1"
	config "k8s.io/kubelet/config/v1beta1"
	_ "k8s.io/kubernetes/cmd/kubelet/app" // registers the gates that a kubelet knows
	"k8s.io/kubernetes/pkg/kubelet/apis/config/v1beta1"
)

type field struct {
	Type    string           `json:"type"`
	Of      *field           `json:"of,omitempty"`
	Fields  map[string]field `json:"fields,omitempty"`
	Default any              `json:"default,omitempty"`
}

type gate struct {
	Default bool   `json:"default"`
	Stage   string `json:"stage"`
	Locked  bool   `json:"locked,omitempty"`
}

var scalars = map[reflect.Type]string{
	reflect.TypeOf(metav1.Duration{}):         "duration",
	reflect.TypeOf(metav1.Time{}):             "string",
	reflect.TypeOf(logs.TimeOrMetaDuration{}): "duration|nanoseconds",
	reflect.TypeOf(resource.Quantity{}):       "quantity",
	reflect.TypeOf(resource.QuantityValue{}):  "quantity",
}

func describe(t reflect.Type, defaults any) field {
	if t.Kind() == reflect.Pointer {
		return describe(t.Elem(), defaults)
	}
	if name, ok := scalars[t]; ok {
		return field{Type: name, Default: defaults}
	}
	switch t.Kind() {
	case reflect.Struct:
		values, _ := defaults.(map[string]any)
		fields := map[string]field{}
		addFields(t, values, fields)
		return field{Type: "object", Fields: fields}
	case reflect.Slice:
		of := describe(t.Elem(), nil)
		return field{Type: "list", Of: &of, Default: defaults}
	case reflect.Map:
		of := describe(t.Elem(), nil)
		return field{Type: "map", Of: &of, Default: defaults}
	case reflect.Uint32: // logging's verbosity
		return field{Type: "uint32", Default: defaults}
	}
	return field{Type: t.Kind().String(), Default: defaults}
}

func addFields(t reflect.Type, defaults map[string]any, into map[string]field) {
	for _, one := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(one.Tag.Get("json"), ",")
		if len(one.Index) > 1 || name == "-" {
			continue
		}
		if one.Anonymous && name == "" {
			addFields(one.Type, defaults, into)
			continue
		}
		into[name] = describe(one.Type, defaults[name])
	}
}

func main() {
	var defaulted config.KubeletConfiguration
	v1beta1.SetObjectDefaults_KubeletConfiguration(&defaulted)
	encoded, err := json.Marshal(defaulted)
	if err == nil {
		var values map[string]any
		if err = json.Unmarshal(encoded, &values); err == nil {
			gates := map[string]gate{}
			for name, spec := range utilfeature.DefaultMutableFeatureGate.GetAll() {
				if name == "AllAlpha" || name == "AllBeta" {
					continue
				}
				stage := string(spec.PreRelease)
				if spec.PreRelease == featuregate.GA {
					stage = "GA"
				}
				gates[string(name)] = gate{Default: spec.Default, Stage: stage, Locked: spec.LockToDefault}
			}
			out := json.NewEncoder(os.Stdout)
			out.SetIndent("", " ")
			err = out.Encode(map[string]any{
				"version":      os.Args[1],
				"fields":       describe(reflect.TypeOf(defaulted), values).Fields,
				"featureGates": gates,
			})
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

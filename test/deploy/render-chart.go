// Renders the templates of a Helm chart as helm template does: with Go's text/template, the functions of Sprig, include and
// toYaml. Prints the values as JSON, and then the documents, separated by lines of three dashes.
//
//	go run render-chart.go <chart> '<values as JSON>'
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"github.com/ghodss/yaml"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func read(file string) map[string]interface{} {
	text, err := os.ReadFile(file)
	check(err)
	values := map[string]interface{}{}
	check(yaml.Unmarshal(text, &values))
	return values
}

// Adds the given values to the defaults, as Helm does: objects are merged.
func merge(defaults, given map[string]interface{}) {
	for name, value := range given {
		below, isObject := value.(map[string]interface{})
		if current, wasObject := defaults[name].(map[string]interface{}); isObject && wasObject {
			merge(current, below)
		} else {
			defaults[name] = value
		}
	}
}

func main() {
	chart := os.Args[1]
	values := read(filepath.Join(chart, "values.yaml"))
	given := map[string]interface{}{}
	check(json.Unmarshal([]byte(os.Args[2]), &given))
	merge(values, given)

	described := read(filepath.Join(chart, "Chart.yaml"))
	data := map[string]interface{}{
		"Values":  values,
		"Release": map[string]interface{}{"Name": "example", "Namespace": "default"},
		"Chart":   map[string]interface{}{"AppVersion": described["appVersion"], "Version": described["version"]},
	}
	all := template.New("chart").Option("missingkey=error").Funcs(sprig.TxtFuncMap())
	all.Funcs(template.FuncMap{
		"include": func(name string, data interface{}) (string, error) {
			var out bytes.Buffer
			err := all.ExecuteTemplate(&out, name, data)
			return out.String(), err
		},
		"toYaml": func(value interface{}) (string, error) {
			text, err := yaml.Marshal(value)
			return strings.TrimSuffix(string(text), "\n"), err
		},
	})
	files, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	check(err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		check(err)
		_, err = all.New(filepath.Base(file)).Parse(string(text))
		check(err)
	}
	encoded, err := json.Marshal(values)
	check(err)
	fmt.Println(string(encoded))
	for _, file := range files {
		if filepath.Ext(file) == ".yaml" {
			fmt.Println("---")
			check(all.ExecuteTemplate(os.Stdout, filepath.Base(file), data))
		}
	}
}

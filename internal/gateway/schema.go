// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"
)

// schemas makes JSON Schema of Go types; structs are named and stand once.
type schemas struct {
	named object
	types map[string]reflect.Type
}

func newSchemas() *schemas { return &schemas{named: object{}, types: map[string]reflect.Type{}} }

// special are the types that JSON shows otherwise than their Go type.
func special(kind reflect.Type) object {
	switch kind {
	case reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case reflect.TypeFor[json.RawMessage]():
		return object{}
	case reflect.TypeFor[[]byte]():
		return object{"type": "string", "contentEncoding": "base64"}
	case reflect.TypeFor[seconds]():
		return object{"type": []string{"number", "string"}, "description": `seconds, or a text as "10s"`}
	case reflect.TypeFor[size]():
		return object{"type": []string{"integer", "string"}, "description": `bytes, or a text as "512MiB"`}
	case reflect.TypeFor[signal]():
		return object{"type": []string{"integer", "string"}, "description": "a number, or a name as TERM"}
	}
	return nil
}

// of describes the type of a value: what an answer has, or what a request may have.
func (s *schemas) of(value any, answer bool) object { return s.schema(reflect.TypeOf(value), answer) }

// without describes a request whose fields in omit are not those of the route.
func (s *schemas) without(value any, omit []string) object {
	if len(omit) == 0 {
		return s.of(value, false)
	}
	return s.fields(reflect.TypeOf(value), false, omit)
}

func (s *schemas) schema(kind reflect.Type, answer bool) object {
	if known := special(kind); known != nil {
		return known
	}
	switch kind.Kind() {
	case reflect.Pointer:
		return s.schema(kind.Elem(), answer)
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}
	case reflect.Slice, reflect.Array:
		return object{"type": "array", "items": s.schema(kind.Elem(), answer)}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.schema(kind.Elem(), answer)}
	case reflect.Interface:
		return object{}
	case reflect.Struct:
		return s.reference(kind, answer)
	default:
		return object{"type": "integer"}
	}
}

// reference gives a struct its name, and describes it the first time. Two types of one name get two names.
func (s *schemas) reference(kind reflect.Type, answer bool) object {
	name := strings.ToUpper(kind.Name()[:1]) + kind.Name()[1:]
	for other := s.types[name]; other != nil && other != kind; other = s.types[name] {
		name += "Detail"
	}
	if s.types[name] == nil {
		s.types[name] = kind
		s.named[name] = s.fields(kind, answer, nil)
	}
	return object{"$ref": "#/components/schemas/" + name}
}

func (s *schemas) fields(kind reflect.Type, answer bool, omit []string) object {
	properties, required := object{}, []string{}
	s.collect(kind, answer, omit, properties, &required)
	described := object{"type": "object", "properties": properties}
	if !answer {
		described["additionalProperties"] = false
	} else if len(required) > 0 {
		slices.Sort(required)
		described["required"] = required
	}
	return described
}

func (s *schemas) collect(kind reflect.Type, answer bool, omit []string, properties object, required *[]string) {
	for field := range kind.Fields() {
		if field.Anonymous && jsonName(field) == "" {
			embedded := field.Type
			if embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			s.collect(embedded, answer, omit, properties, required)
			continue
		}
		name := jsonName(field)
		if name == "" || slices.Contains(omit, name) {
			continue
		}
		properties[name] = s.schema(field.Type, answer)
		if strings.Contains(field.Tag.Get("json"), ",omit") {
			continue
		}
		*required = append(*required, name)
		if answer && field.Type.Kind() == reflect.Pointer {
			properties[name] = object{"anyOf": []object{s.schema(field.Type, answer), {"type": "null"}}}
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"glovebox/internal/engine"
)

// maxJSONFaults bounds how many faults of a body are named.
const maxJSONFaults = 20

// strictJSON reads exactly one object, refuses unknown fields, and names every fault at once.
func strictJSON(body io.Reader, into any) error {
	raw, err := io.ReadAll(body)
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return err
	}
	if _, known := errors.AsType[*engine.Problem](err); known {
		return err
	}
	if err != nil {
		return invalid("the body ended before it was whole: %w", err)
	}
	if len(bytes.TrimSpace(raw)) == 0 {
		return invalid("the body is empty: send a JSON object, at least {}")
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	var object json.RawMessage
	if err := decoder.Decode(&object); err != nil {
		return invalid("the body is not the JSON object that is expected: %w", err)
	}
	if _, more := decoder.Token(); !errors.Is(more, io.EOF) {
		return invalid("the body has more than one JSON object")
	}
	faults := fill(object, reflect.ValueOf(into).Elem(), "")
	switch {
	case len(faults) == 0:
		return nil
	case len(faults) == 1:
		return invalid("%s", faults[0])
	case len(faults) > maxJSONFaults:
		faults = append(faults[:maxJSONFaults], fmt.Sprintf("and %d more", len(faults)-maxJSONFaults))
	}
	return &engine.Problem{Code: engine.CodeInvalid, Text: "the request is not valid", Faults: faults}
}

// fill sets the fields of a struct from an object, and lists what does not fit.
func fill(raw json.RawMessage, into reflect.Value, path string) (faults []string) {
	if into.Kind() == reflect.Pointer {
		if string(raw) == "null" {
			return nil
		}
		into.Set(reflect.New(into.Type().Elem()))
		into = into.Elem()
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil {
		return []string{mismatch(path, err)}
	}
	fields := fieldsOf(into)
	for _, name := range slices.Sorted(maps.Keys(object)) {
		field, known := fields[name]
		at := name
		if path != "" {
			at = path + "." + name
		}
		if !known {
			faults = append(faults, fmt.Sprintf("unknown field %q", clip(at)))
			continue
		}
		faults = append(faults, fillField(object[name], field, at)...)
	}
	return faults
}

func fillField(raw json.RawMessage, field reflect.Value, path string) (faults []string) {
	kind := field.Type()
	if kind.Kind() == reflect.Slice && isObject(kind.Elem()) {
		var items []json.RawMessage
		if err := json.Unmarshal(raw, &items); err != nil {
			return []string{mismatch(path, err)}
		}
		list := reflect.MakeSlice(kind, len(items), len(items))
		for i, item := range items {
			faults = append(faults, fill(item, list.Index(i), fmt.Sprintf("%s[%d]", path, i))...)
		}
		field.Set(list)
		return faults
	}
	if isObject(kind) {
		return fill(raw, field, path)
	}
	if err := json.Unmarshal(raw, field.Addr().Interface()); err != nil {
		return []string{mismatch(path, err)}
	}
	return nil
}

// isObject tells the structs that are read field by field.
func isObject(kind reflect.Type) bool {
	if kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	return kind.Kind() == reflect.Struct && !reflect.PointerTo(kind).Implements(reflect.TypeFor[json.Unmarshaler]())
}

// fieldsOf returns the fields of a struct, and of those embedded in it, by their names in JSON.
func fieldsOf(object reflect.Value) map[string]reflect.Value {
	fields := make(map[string]reflect.Value)
	for i := range object.NumField() {
		field := object.Type().Field(i)
		if field.Anonymous {
			maps.Copy(fields, fieldsOf(object.Field(i)))
			continue
		}
		if name := jsonName(field); name != "" {
			fields[name] = object.Field(i)
		}
	}
	return fields
}

// jsonName is a field's name in JSON, or empty.
func jsonName(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	if !field.IsExported() || name == "-" {
		return ""
	}
	return name
}

func mismatch(path string, err error) string {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case ok && path == "":
		return fmt.Sprintf("the body is the wrong kind of JSON, %s: send an object", wrong.Value)
	case ok && wrong.Field != "":
		return fmt.Sprintf("field %q has the wrong kind of value: %s", path+"."+wrong.Field, wrong.Value)
	case ok:
		return fmt.Sprintf("field %q has the wrong kind of value: %s", path, wrong.Value)
	default:
		return fmt.Sprintf("field %q: %v", path, err)
	}
}

func clip(text string) string {
	const most = 80
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}

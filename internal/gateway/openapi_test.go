// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"glovebox/internal/gateway"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestOpenAPIIsGolden: what clients are told does not change by accident.
func TestOpenAPIIsGolden(t *testing.T) {
	t.Parallel()
	b := newBench(t, change{})
	a := b.do(t, "GET", "/v1/openapi.json", "", "", func(r *http.Request) { r.Header.Del("Authorization") })
	golden := filepath.Join("testdata", "openapi.json")
	if *update {
		if err := os.WriteFile(golden, []byte(a.body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(a.body, "\n")); diff != "" {
		t.Errorf("the document is not %s (go test ./internal/gateway -run OpenAPI -update):\n%s", golden, diff)
	}
}

// TestOpenAPIIsWhole: every route is described, every reference leads somewhere, every path parameter is declared, and every
// operation has an id of its own and says what goes wrong.
func TestOpenAPIIsWhole(t *testing.T) {
	t.Parallel()
	a := newBench(t, change{}).do(t, "GET", "/v1/openapi.json", "", "")
	var document struct {
		OpenAPI    string
		Paths      map[string]map[string]operation
		Components struct{ Schemas map[string]json.RawMessage }
	}
	if err := json.Unmarshal([]byte(a.body), &document); err != nil {
		t.Fatal(err)
	}
	if document.OpenAPI != "3.1.0" {
		t.Errorf("version %q", document.OpenAPI)
	}
	references := regexp.MustCompile(`"#/components/schemas/([^"]+)"`).FindAllStringSubmatch(a.body, -1)
	if len(references) == 0 {
		t.Error("no reference: are types described?")
	}
	for _, match := range references {
		if document.Components.Schemas[match[1]] == nil {
			t.Errorf("%s leads nowhere", match[1])
		}
	}
	ids := map[string]bool{}
	for _, route := range gateway.Routes() {
		method, path, _ := strings.Cut(route, " ")
		path = strings.ReplaceAll(path, "...}", "}")
		o, described := document.Paths[path][strings.ToLower(method)]
		switch {
		case !described:
			t.Errorf("%s is not described", route)
			continue
		case ids[o.OperationID] || o.OperationID == "":
			t.Errorf("%s: operation id %q", route, o.OperationID)
		case o.Summary == "" || o.Responses["default"] == nil || len(o.Responses) < 2:
			t.Errorf("%s: %+v", route, o)
		}
		ids[o.OperationID] = true
		var declared []string
		for _, p := range o.Parameters {
			if p.In == "path" {
				declared = append(declared, p.Name)
			}
		}
		var wanted []string
		for _, match := range regexp.MustCompile(`\{([^}]+)\}`).FindAllStringSubmatch(path, -1) {
			wanted = append(wanted, match[1])
		}
		if !slices.Equal(declared, wanted) {
			t.Errorf("%s: parameters %v", route, declared)
		}
	}
}

type operation struct {
	OperationID string
	Summary     string
	Parameters  []struct{ Name, In string }
	Responses   map[string]json.RawMessage
}

// TestPageStandsAlone: it names every route, and takes nothing from elsewhere.
func TestPageStandsAlone(t *testing.T) {
	t.Parallel()
	a := newBench(t, change{}).do(t, "GET", "/docs", "", "", func(r *http.Request) { r.Header.Del("Authorization") })
	if a.status != http.StatusOK || !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") {
		t.Fatalf("%d %v", a.status, a.header)
	}
	for _, route := range gateway.Routes() {
		if _, path, _ := strings.Cut(route, " "); !strings.Contains(a.body, "<code>"+path+"</code>") {
			t.Errorf("%s is not on the page", path)
		}
	}
	if regexp.MustCompile(`(?i)https?://|<script|src=|@import|url\(`).MatchString(a.body) {
		t.Error("the page takes something from elsewhere")
	}
	if policy := a.header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'; style-src 'sha256-") || strings.Contains(policy, "unsafe") {
		t.Errorf("policy %q", policy)
	}
}

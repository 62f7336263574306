// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
)

//go:embed page.html
var pageTemplate string

//go:embed page.css
var pageStyle string

// page makes the readable form of the table: one page without a script, and with nothing from elsewhere.
func page(table []route) ([]byte, error) {
	parsed, err := template.New("page").Parse(pageTemplate)
	if err != nil {
		return nil, fmt.Errorf("gateway: the page: %w", err)
	}
	type row struct {
		Method, Path, Scope, Summary string
		Queries                      []string
	}
	type section struct {
		Noun string
		Rows []row
	}
	var sections []*section
	for _, route := range table {
		if len(sections) == 0 || sections[len(sections)-1].Noun != route.noun() {
			sections = append(sections, &section{Noun: route.noun()})
		}
		shown := row{Method: route.method, Path: route.path, Scope: string(route.scope), Summary: route.does.summary}
		for _, q := range route.does.queries {
			shown.Queries = append(shown.Queries, q.name+": "+q.means)
		}
		last := sections[len(sections)-1]
		last.Rows = append(last.Rows, shown)
	}
	var filled bytes.Buffer
	err = parsed.Execute(&filled, struct {
		Style    template.CSS
		Document string
		Sections []*section
	}{template.CSS(pageStyle), documentPath, sections}) //nolint:gosec // it is our own
	return filled.Bytes(), err
}

func (g *Gateway) getPage(w http.ResponseWriter, _ *http.Request) {
	style := sha256.Sum256([]byte(pageStyle))
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'sha256-"+base64.StdEncoding.EncodeToString(style[:])+
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	g.allowWrite(w)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(g.page) // the client may have gone
}

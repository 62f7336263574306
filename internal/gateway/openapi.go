// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Where the description of the table is.
const (
	documentPath = "/v1/openapi.json"
	pagePath     = "/docs"
)

// operation describes a route.
type operation struct {
	summary string
	queries []query
	// body is a value of the type that is taken, without the fields in omit, as JSON and in the forms of bodyKinds.
	body      any
	omit      []string
	bodyKinds []string
	status    int
	// answer is a value of the type that is given as JSON; kinds are other forms of the answer.
	answer any
	kinds  []string
	once   bool
}

type query struct{ name, means string }

func does(summary string) operation { return operation{summary: summary, status: http.StatusNoContent} }

// takes says what the body is, as JSON.
func (o operation) takes(body any, omit ...string) operation {
	o.body, o.omit, o.bodyKinds = body, omit, []string{"application/json"}
	return o
}

// takesBytes says that the body is streamed as it is.
func (o operation) takesBytes(kinds ...string) operation {
	o.bodyKinds = kinds
	return o
}

// as adds a form of the body, or of an answer without one.
func (o operation) as(kind string) operation {
	if o.body == nil {
		return o.sends(kind)
	}
	o.bodyKinds = append(slices.Clip(o.bodyKinds), kind)
	return o
}

// gives says what the answer is, as JSON.
func (o operation) gives(status int, answer any) operation {
	o.status, o.answer = status, answer
	return o
}

// sends says that the answer is bytes of these kinds.
func (o operation) sends(kinds ...string) operation {
	o.status, o.kinds = http.StatusOK, append(slices.Clip(o.kinds), kinds...)
	return o
}

// streams says that the answer comes as events to who accepts those.
func (o operation) streams() operation {
	o.kinds = append(slices.Clip(o.kinds), "text/event-stream")
	return o
}

// asks names a query parameter.
func (o operation) asks(name, means string) operation {
	o.queries = append(slices.Clip(o.queries), query{name, means})
	return o
}

// key says that the route takes an Idempotency-Key.
func (o operation) key() operation {
	o.once = true
	return o
}

// object is a part of the document.
type object = map[string]any

var pathParameter = regexp.MustCompile(`\{([a-z]+)(\.\.\.)?\}`)

// describe makes the document and the page.
func (g *Gateway) describe() error {
	document := g.openAPI()
	var err error
	if g.document, err = json.MarshalIndent(document, "", "  "); err != nil {
		return fmt.Errorf("gateway: describe the routes: %w", err)
	}
	g.page, err = page(g.table())
	return err
}

// openAPI describes the table as OpenAPI 3.1.
func (g *Gateway) openAPI() object {
	schemas := newSchemas()
	paths := object{}
	problems := schemas.of(problem{}, true)
	for _, route := range g.table() {
		path := pathParameter.ReplaceAllString(route.path, "{$1}")
		methods, _ := paths[path].(object)
		if methods == nil {
			methods = object{}
			paths[path] = methods
		}
		methods[strings.ToLower(route.method)] = route.describe(schemas, problems)
	}
	return object{
		"openapi": "3.1.0",
		"info": object{
			"title": "Glovebox", "version": "1",
			"description": "Runs untrusted code in sandboxes and hands back text, values, charts and files.",
			"license":     object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
		},
		"servers":    []object{{"url": "/"}},
		"paths":      paths,
		"components": object{"schemas": schemas.named, "securitySchemes": object{"key": object{"type": "http", "scheme": "bearer"}}},
	}
}

func (r route) describe(schemas *schemas, problems object) object {
	o := r.does
	described := object{
		"summary": o.summary, "operationId": r.operationID(), "tags": []string{r.noun()},
		"responses": object{
			strconv.Itoa(o.status): o.response(schemas),
			"default":              object{"description": "A problem", "content": object{"application/problem+json": object{"schema": problems}}},
		},
	}
	if r.scope != "" {
		described["security"] = []object{{"key": []string{}}}
		described["x-scope"] = r.scope
	} else {
		described["security"] = []object{}
	}
	if parameters := r.parameters(); len(parameters) > 0 {
		described["parameters"] = parameters
	}
	if len(o.bodyKinds) > 0 {
		content := object{}
		for _, kind := range o.bodyKinds {
			schema := object{}
			if o.body != nil {
				schema = schemas.without(o.body, o.omit)
			}
			content[kind] = object{"schema": schema}
		}
		described["requestBody"] = object{"content": content}
	}
	return described
}

func (o operation) response(schemas *schemas) object {
	content := object{}
	if o.answer != nil {
		content["application/json"] = object{"schema": schemas.of(o.answer, true)}
	}
	for _, kind := range o.kinds {
		content[kind] = object{"schema": object{}}
	}
	answer := object{"description": http.StatusText(o.status)}
	if len(content) > 0 {
		answer["content"] = content
	}
	return answer
}

func (r route) parameters() (list []object) {
	text := object{"type": "string"}
	for _, match := range pathParameter.FindAllStringSubmatch(r.path, -1) {
		list = append(list, object{"name": match[1], "in": "path", "required": true, "schema": text})
	}
	for _, q := range r.does.queries {
		list = append(list, object{"name": q.name, "in": "query", "description": q.means, "schema": text})
	}
	if r.does.once {
		list = append(list, object{"name": headerKey, "in": "header", "schema": text, "description": "sent again, the same request gets the first answer"})
	}
	return list
}

// noun is what the route is about: the last fixed plural of its path.
func (r route) noun() string {
	noun := "server"
	for part := range strings.SplitSeq(r.path, "/") {
		switch part {
		case "executions", "sandboxes", "sessions", "files", "processes":
			noun = part
		}
	}
	return noun
}

func (r route) operationID() string {
	var id strings.Builder
	id.WriteString(strings.ToLower(r.method))
	for _, part := range strings.FieldsFunc(strings.TrimPrefix(r.path, "/v1"), func(c rune) bool { return c == '/' || c == '.' || c == '{' || c == '}' }) {
		id.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return id.String()
}

func (g *Gateway) getDocument(w http.ResponseWriter, _ *http.Request) {
	g.allowWrite(w)
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(g.document) // the client may have gone
}

// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"net/http"

	"glovebox/internal/auth"
	"glovebox/internal/engine"
	"glovebox/internal/sandbox"
	"glovebox/internal/usage"
)

// route is one thing that a client can do.
type route struct {
	method, path string
	// scope is what a caller must have; empty is open to everybody.
	scope  auth.Scope
	handle http.HandlerFunc
	// does describes it; the OpenAPI document is made of that.
	does operation
}

// table is every route there is. To add one: a row here, with its description, a handler in the file of its noun, and a
// line in the user guide.
func (g *Gateway) table() []route {
	return append(append([]route{
		{"GET", "/healthz", "", g.health, does("Whether the server answers").gives(200, map[string]string{})},
		{"GET", "/readyz", "", g.ready, does("Whether the server takes new work, and what stands against it").gives(200, map[string]string{})},
		{"GET", "/metrics", auth.ScopeAdmin, g.metrics, does("Counters for Prometheus").sends("text/plain")},
		{"GET", "/v1/usage", auth.ScopeRun, g.getUsage, does("What a tenant used; another's needs the scope admin").
			asks("tenant", "the caller's own by default").asks("from", "a day, as 2026-11-29").asks("to", "a day, included").gives(200, usage.Report{})},
		{"DELETE", "/v1/tenants/{tenant}", auth.ScopeAdmin, g.deleteTenant, does("Remove a tenant with all that is kept of it")},
		{"GET", documentPath, "", g.getDocument, does("This document").gives(200, map[string]any{})},
		{"GET", pagePath, "", g.getPage, does("This document for people").as("text/html")},

		{"POST", "/v1/executions", auth.ScopeRun, g.once(g.postExecution), does("Run code in a sandbox of its own").
			takes(executionRequest{}, "metadata", "lease").as("multipart/form-data").gives(200, engine.Execution{}).streams().key()},
		{"GET", "/v1/executions", auth.ScopeRun, g.listExecutions, does("List what is kept of executions, the newest first").
			asks("status", "only those that ended so").asks("limit", "how many").asks("before", "where the page begins: next of the page before").
			gives(200, engine.List{})},
		{"GET", "/v1/executions/{id}/code", auth.ScopeAudit, g.getCode, does("The code of an execution; that it was read is recorded").gives(200, codeAnswer{})},
		{"GET", "/v1/executions/{id}", auth.ScopeRun, g.getExecution, does("The record of an execution").gives(200, engine.Execution{})},
		{"DELETE", "/v1/executions/{id}", auth.ScopeRun, g.deleteExecution, does("Cancel an execution and remove what is kept of it")},
		{"GET", "/v1/executions/{id}/output", auth.ScopeRun, g.getOutput, does("All that an execution printed on a stream").
			asks("stream", "stdout, stderr or background").sends("text/plain")},
		{"GET", "/v1/executions/{id}/artifacts", auth.ScopeRun, g.getArtifacts, does("The files that an execution left").gives(200, artifactList{})},
		{"GET", "/v1/executions/{id}/artifacts/{name...}", auth.ScopeRun, g.getArtifact, does("One file that an execution left").sends("application/octet-stream")},

		{"POST", "/v1/sandboxes", auth.ScopeSandboxes, g.once(g.postSandbox), does("Make a sandbox that lives between executions").
			takes(executionRequest{}, "code", "name", "inputs", "return", "detach", "cancel_on_disconnect").as("multipart/form-data").
			gives(201, engine.Held{}).key()},
		{"GET", "/v1/sandboxes", auth.ScopeSandboxes, g.listSandboxes, does("List sandboxes, the newest first").
			asks("state", "idle or busy").asks("metadata.KEY", "only those whose metadata has this value").
			asks("limit", "how many").asks("before", "where the page begins: next of the page before").gives(200, sandboxList{})},
		{"GET", "/v1/sandboxes/{id}", auth.ScopeSandboxes, g.getSandbox, does("One sandbox").gives(200, engine.Held{})},
		{"PATCH", "/v1/sandboxes/{id}", auth.ScopeSandboxes, g.inSandbox(g.patchSandbox), does("Extend a sandbox's lease, change its metadata or its limits").
			takes(sandboxPatch{}).gives(200, engine.Held{})},
		{"DELETE", "/v1/sandboxes/{id}", auth.ScopeSandboxes, g.deleteSandbox, does("End a sandbox and all in it")},
		{"POST", "/v1/sandboxes/{id}/execute", auth.ScopeSandboxes, g.postCell, does("Run a cell in a session; its state stays").
			takes(cellRequest{}, "files", "policy", "image", "backend", "language", "env", "detach", "fresh", "metadata", "lease").
			gives(200, engine.Execution{}).streams()},
		{"POST", "/v1/sandboxes/{id}/fork", auth.ScopeSandboxes, g.postFork, does("Copy a session with all its variables").
			takes(forkRequest{}).gives(201, forkAnswer{})},
	}, g.sessionTable()...), append(g.fileTable(), g.processTable()...)...)
}

func (g *Gateway) sessionTable() []route {
	const sessions = "/v1/sandboxes/{id}/sessions"
	return []route{
		{"POST", sessions, auth.ScopeSandboxes, g.inSandbox(g.postSession), does("Open one more session, in any language").
			takes(sessionRequest{}).gives(201, engine.Session{})},
		{"GET", sessions, auth.ScopeSandboxes, g.inSandbox(g.listSessions), does("The sessions of a sandbox").gives(200, sessionList{})},
		{"POST", sessions + "/{name}/interrupt", auth.ScopeSandboxes, g.inSandbox(g.interruptSession), does("Interrupt the running cell; the state stays")},
		{"POST", sessions + "/{name}/restart", auth.ScopeSandboxes, g.inSandbox(g.restartSession), does("Begin a session anew: its cell is ended, its variables are gone").
			gives(200, engine.Session{})},
		{"DELETE", sessions + "/{name}", auth.ScopeSandboxes, g.inSandbox(g.deleteSession), does("Close a session and end its cell")},
	}
}

func (g *Gateway) fileTable() []route {
	const files = "/v1/sandboxes/{id}/files"
	const path, folder = "absolute, or beneath the working folder", "a folder, absolute or beneath the working folder, which it is by default"
	return []route{
		{"PUT", files, auth.ScopeFiles, g.inFiles(g.putFile), does("Write a file; it is there when it is whole").
			asks("path", path).takesBytes("application/octet-stream").gives(200, putAnswer{})},
		{"GET", files, auth.ScopeFiles, g.inFiles(g.getFile), does("Read a file, in ranges if asked").
			asks("path", path).sends("application/octet-stream")},
		{"DELETE", files, auth.ScopeFiles, g.inFiles(g.deleteFile), does("Remove a file, or a folder with all in it").asks("path", path)},
		{"GET", files + "/stat", auth.ScopeFiles, g.inFiles(g.statFile), does("Describe a file, or what a link leads to").asks("path", path).gives(200, fileInfo{})},
		{"GET", files + "/list", auth.ScopeFiles, g.inFiles(g.listFiles), does("List a folder").asks("path", folder).gives(200, fileList{})},
		{"POST", files + "/move", auth.ScopeFiles, g.inFiles(g.moveFile), does("Move or rename; what is at the new place is replaced").takes(moveRequest{})},
		{"POST", files + "/folders", auth.ScopeFiles, g.inFiles(g.makeFolder), does("Make a folder, and those above it").takes(folderRequest{})},
		{"GET", files + "/archive", auth.ScopeFiles, g.inFiles(g.getArchive), does("Take a folder as an archive; links are left out").
			asks("path", folder).asks("format", "tar or zip").sends("application/x-tar", "application/zip")},
		{"POST", files + "/archive", auth.ScopeFiles, g.inFiles(g.putArchive), does("Unpack a tar archive, plain or gzip, inside the sandbox; links are left out").
			asks("path", folder).takesBytes("application/x-tar").gives(200, sandbox.Unpacked{})},
		{"GET", files + "/watch", auth.ScopeFiles, g.inFiles(g.watchFiles), does("Follow the changes beneath a folder, by looking every second").
			asks("path", folder).sends("text/event-stream")},
	}
}

func (g *Gateway) processTable() []route {
	const all, one = "/v1/sandboxes/{id}/processes", "/v1/sandboxes/{id}/processes/{process}"
	return []route{
		{"POST", all, auth.ScopeSandboxes, g.inSandbox(g.postProcess), does("Start a process, with a terminal if asked").
			takes(processRequest{}).gives(201, engine.Process{})},
		{"GET", all, auth.ScopeSandboxes, g.inSandbox(g.listProcesses), does("The processes of a sandbox that were started here").gives(200, processList{})},
		{"GET", one, auth.ScopeSandboxes, g.inSandbox(g.getProcess), does("One process; waits for its end if asked").
			asks("wait", "for its end, at most so many seconds").gives(200, engine.Process{})},
		{"GET", one + "/output", auth.ScopeSandboxes, g.inSandbox(g.processOutput), does("What a process printed from an offset on: what there is, or as events until its end").
			asks("offset", "in bytes of both streams").sends("application/octet-stream", "text/event-stream")},
		{"POST", one + "/stdin", auth.ScopeSandboxes, g.inSandbox(g.postStdin), does("Send standard input, as fast as the process reads").
			asks("close", "end the input with it").takesBytes("application/octet-stream").gives(200, stdinAnswer{})},
		{"POST", one + "/signal", auth.ScopeSandboxes, g.inSandbox(g.postSignal), does("Send a signal to a process and its group").takes(signalRequest{})},
		{"POST", one + "/resize", auth.ScopeSandboxes, g.inSandbox(g.postResize), does("Change the size of a process's terminal").takes(terminalSize{})},
		{"GET", one + "/attach", auth.ScopeSandboxes, g.inSandbox(g.attach), does("Join a WebSocket to a process: output, input, resize").
			asks("offset", "in bytes of both streams").gives(101, nil)},
		{"DELETE", one, auth.ScopeSandboxes, g.inSandbox(g.deleteProcess), does("Kill a process and forget it")},
	}
}

// admitted lets only callers with the route's scope through, and those who start something only as fast as they may.
func (g *Gateway) admitted(route route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		route.matched(r)
		if route.scope != "" && !caller(r).May(route.scope) {
			g.problem(w, problem{
				Status: http.StatusForbidden, Code: "forbidden",
				Detail: "this key lacks the scope " + string(route.scope) + ": use one that has it (`glovebox keys create --scopes`)",
			})
			return
		}
		if route.method == http.MethodPost {
			leave := g.fair(w, r)
			if leave == nil {
				return
			}
			defer leave()
		}
		route.handle(w, r)
	})
}

type callerKey struct{}

func withCaller(r *http.Request, who *auth.Principal) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), callerKey{}, who))
}

// caller is who a request is carried out for. One that nobody let in may nothing.
func caller(r *http.Request) *auth.Principal {
	if who, ok := r.Context().Value(callerKey{}).(*auth.Principal); ok {
		return who
	}
	return &auth.Principal{}
}

// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"glovebox/internal/auth"
	"glovebox/internal/policy"
	"glovebox/internal/sandbox"
)

// The limits of a request.
const (
	MaxCode       = 1 << 20 // bytes of source text
	MaxFiles      = 64
	MaxEnv        = 64
	MaxEnvBytes   = 32 << 10 // of one variable
	MaxInputs     = 64
	MaxInputBytes = 4 << 20 // of all values together
	MaxReturn     = 64
	MaxName       = 128 // characters of a variable's name
)

// DefaultLanguage is run when a request names none.
const DefaultLanguage = "python"

// Request asks for one execution. The zero value of every field but Code means the default.
type Request struct {
	// Who asks, and owns what comes of it; nil is the operator.
	Who *auth.Principal
	// Code is the source text.
	Code string
	// Name stands for the file in tracebacks.
	Name     string
	Language string
	Policy   string
	Limits   policy.Overrides
	Image    string
	Backend  string
	Env      map[string]string
	// Files are shown read-only at /data and in the working folder.
	Files []sandbox.InputFile
	// Inputs become variables; Return names variables whose values come back.
	Inputs map[string]json.RawMessage
	Return []string
	// MustHaveCode refuses a request without code: over HTTP that is a field that was forgotten, not an empty script.
	MustHaveCode bool
	// Fresh asks for an interpreter of the run's own, started for it rather than forked: forks of one zygote share the
	// layout of their memory and their hash seed.
	Fresh bool
	// Terms are those of a sandbox that is held; an execution has none.
	Terms Terms
	// Release is called once when the execution no longer needs Files, also when the request is refused.
	Release func()
}

func (r *Request) who() *auth.Principal {
	if r.Who == nil {
		return auth.Operator()
	}
	return r.Who
}

func (r *Request) release() {
	if r.Release != nil {
		r.Release()
		r.Release = nil
	}
}

// validate lists every fault of the request's own fields.
func (r *Request) validate() error {
	return errors.Join(
		r.validateCode(), r.validateFiles(), r.validateEnv(), r.validateInputs(), r.validateReturn(), r.Terms.validate(),
	)
}

func (r *Request) validateCode() error {
	var faults []error
	switch {
	case r.Code == "" && r.MustHaveCode:
		faults = append(faults, errors.New("there is no code: the script, or the field code, is empty"))
	case len(r.Code) > MaxCode:
		faults = append(faults, fmt.Errorf("the code has %d bytes: at most %d are allowed; upload large data as a file", len(r.Code), MaxCode))
	case !utf8.ValidString(r.Code):
		faults = append(faults, errors.New("the code is not UTF-8 text: save it as UTF-8"))
	case strings.ContainsRune(r.Code, 0):
		faults = append(faults, errors.New("the code contains a NUL character: remove it"))
	}
	if r.Name != "" {
		if err := sandbox.ValidFileName(r.Name); err != nil {
			faults = append(faults, fmt.Errorf("the code's name: %w", err))
		}
	}
	return errors.Join(faults...)
}

func (r *Request) validateFiles() error {
	var faults []error
	if len(r.Files) > MaxFiles {
		faults = append(faults, fmt.Errorf("%d files: at most %d are allowed", len(r.Files), MaxFiles))
	}
	seen := map[string]bool{}
	for _, file := range r.Files {
		if err := sandbox.ValidFileName(file.Name); err != nil {
			faults = append(faults, err)
		} else if seen[file.Name] {
			faults = append(faults, fmt.Errorf("file name %q is given twice: rename one of them", file.Name))
		}
		seen[file.Name] = true
	}
	return errors.Join(faults...)
}

func (r *Request) validateEnv() error {
	var faults []error
	if len(r.Env) > MaxEnv {
		faults = append(faults, fmt.Errorf("%d environment variables: at most %d are allowed", len(r.Env), MaxEnv))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Env)) {
		value := r.Env[name]
		switch {
		case !validEnvName(name):
			faults = append(faults, fmt.Errorf("environment variable %q: a name has letters, digits and underscores only", clip(name, 40)))
		case len(value) > MaxEnvBytes:
			faults = append(faults, fmt.Errorf("environment variable %s has %d bytes: at most %d are allowed", name, len(value), MaxEnvBytes))
		case strings.ContainsRune(value, 0):
			faults = append(faults, fmt.Errorf("environment variable %s contains a NUL character", name))
		}
	}
	return errors.Join(faults...)
}

func (r *Request) validateInputs() error {
	var faults []error
	if len(r.Inputs) > MaxInputs {
		faults = append(faults, fmt.Errorf("%d inputs: at most %d are allowed", len(r.Inputs), MaxInputs))
	}
	total := 0
	for _, name := range slices.Sorted(maps.Keys(r.Inputs)) {
		total += len(r.Inputs[name])
		if err := validVariable(name); err != nil {
			faults = append(faults, fmt.Errorf("input %w", err))
		} else if !json.Valid(r.Inputs[name]) {
			faults = append(faults, fmt.Errorf("input %s is not JSON", name))
		}
	}
	if total > MaxInputBytes {
		faults = append(faults, fmt.Errorf("the inputs have %d bytes: at most %d are allowed; upload large data as a file", total, MaxInputBytes))
	}
	return errors.Join(faults...)
}

func (r *Request) validateReturn() error {
	var faults []error
	if len(r.Return) > MaxReturn {
		faults = append(faults, fmt.Errorf("%d names to return: at most %d are allowed", len(r.Return), MaxReturn))
	}
	for _, name := range r.Return {
		if err := validVariable(name); err != nil {
			faults = append(faults, fmt.Errorf("return %w", err))
		}
	}
	return errors.Join(faults...)
}

// validVariable takes what Python and JavaScript both take as a variable's name, in any script.
func validVariable(name string) error {
	refuse := fmt.Errorf("%q: a variable's name has letters, digits and underscores only, and at most %d characters", clip(name, 40), MaxName)
	if name == "" || utf8.RuneCountInString(name) > MaxName || !utf8.ValidString(name) {
		return refuse
	}
	for i, r := range name {
		if r != '_' && !unicode.IsLetter(r) && (i == 0 || !unicode.IsDigit(r) && !unicode.Is(unicode.Mn, r) && !unicode.Is(unicode.Mc, r)) {
			return refuse
		}
	}
	return nil
}

func validEnvName(name string) bool {
	if name == "" || len(name) > MaxName {
		return false
	}
	for i, c := range []byte(name) {
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// clip shortens text to most bytes for a message.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}

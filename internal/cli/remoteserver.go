// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"glovebox/client"
)

// serverFlags say which server a command uses, and with which key.
type serverFlags struct {
	Server   string `help:"Run in the server of this URL (default: GLOVEBOX_SERVER, or the server that uses the same data folder, where one runs)." placeholder:"URL"`
	Key      string `help:"API key for --server (default: GLOVEBOX_KEY). Other users of this host can read a command line: --key-file keeps it secret." placeholder:"KEY"`
	KeyFile  string `help:"File that holds the API key." placeholder:"FILE" type:"path"`
	Insecure bool   `help:"Send the key over http:// to another machine, readable on its way."`
	NoServer bool   `help:"Do not use a running server."`
}

// remote returns the server that was named, or the one of the data folder; nil is none. A pause before a request is sent
// again is told, unless quiet.
func (f serverFlags) remote(s *session, quiet bool) (*remote, error) {
	waiting := func(why error, pause time.Duration) {
		if !quiet {
			fmt.Fprintf(s.Stderr, "glovebox: %s; trying again in %v\n", visible(why.Error()), pause)
		}
	}
	environment := s.Environment.Client()
	switch {
	case f.NoServer && f.Server != "":
		return nil, usage("--server and --no-server: choose one")
	case f.Key != "" && f.KeyFile != "":
		return nil, usage("--key and --key-file: choose one")
	case f.NoServer:
		return nil, nil //nolint:nilnil // none is wanted
	case f.Server == "" && environment.URL != "":
		f.Server = environment.URL
	}
	if f.Server == "" {
		if f.Key != "" || f.KeyFile != "" {
			return nil, usage("there is a key and no server: name one with --server or GLOVEBOX_SERVER")
		}
		return dialServer(s.ctx, s.config, waiting), nil
	}
	key, err := f.key(string(environment.Key))
	if err != nil {
		return nil, err
	}
	made, err := client.New(client.Options{URL: f.Server, Key: key, Insecure: f.Insecure, Waiting: waiting})
	switch {
	case errors.Is(err, client.ErrInsecure):
		return nil, usage("%w, or permit it with --insecure", err)
	case err != nil:
		return nil, usage("--server: %w", err)
	}
	return &remote{client: made, without: "check --server and that the server runs"}, nil
}

// key is that of the flags, or else the environment's.
func (f serverFlags) key(environment string) (string, error) {
	if f.KeyFile == "" {
		if f.Key != "" {
			return f.Key, nil
		}
		return environment, nil
	}
	file, err := openRegular("key file", f.KeyFile)
	if err != nil {
		return "", err
	}
	defer file.Close()
	const most = 4 << 10
	content, err := io.ReadAll(io.LimitReader(file, most+1))
	key := strings.TrimSpace(string(content))
	switch {
	case err != nil:
		return "", usage("key file %s cannot be read: %w", f.KeyFile, err)
	case len(content) > most || key == "":
		return "", usage("key file %s holds no key: it should hold one, and nothing else", f.KeyFile)
	}
	return key, nil
}

// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"text/tabwriter"

	"glovebox/images"
	"glovebox/internal/engine"
	"glovebox/internal/image"
	"glovebox/internal/interpreter"
	"glovebox/internal/policy"
)

type imageCommand struct {
	Build imageBuild `cmd:"" help:"Build an image; only what changed is made again."`
	List  imageList  `cmd:"" help:"List the images." aliases:"ls"`
	Show  imageShow  `cmd:"" help:"Show what an image holds, as JSON."`
	Rm    imageRm    `cmd:"" help:"Remove an image."`
}

// store opens the image store.
func (s *session) store() (*image.Store, error) {
	store, err := image.Open(s.config.Data)
	if err != nil {
		return nil, fmt.Errorf("%w; choose another data folder with GLOVEBOX_DATA or --data, or run as its owner", err)
	}
	return store, nil
}

// imageError gives an error of the store its exit code.
func imageError(err error) error {
	if err == nil {
		return nil
	}
	code := engine.ExitInfra
	switch image.KindOf(err) {
	case image.KindInvalid, image.KindNotBuilt:
		code = engine.ExitUsage
	case image.KindCanceled:
		code = engine.ExitCanceled
	case image.KindFailed, image.KindInUse, image.KindTool, image.KindPrivilege, image.KindDisk, image.KindNetwork:
	}
	return &exitError{Code: code, Err: err}
}

type imageBuild struct {
	Name    string `arg:"" help:"A built-in definition, as python, or the path of a folder with an image.yaml."`
	Refresh bool   `help:"Make every step again, so that the newest packages come in."`
	JSON    bool   `help:"Print the image as one JSON object." name:"json"`
}

// Run builds an image.
func (c imageBuild) Run(s *session) error {
	folder, err := definition(c.Name)
	if err != nil {
		return err
	}
	store, err := s.store()
	if err != nil {
		return err
	}
	built, err := store.Build(s.ctx, folder, image.BuildOptions{
		Progress: s.Stderr, Programs: interpreter.Files(), Refresh: c.Refresh,
	})
	if err != nil {
		return imageError(err)
	}
	if c.JSON {
		return json.NewEncoder(s.Stdout).Encode(built)
	}
	_, err = fmt.Fprintf(s.Stdout, "image %s is ready: %s, %d files, %s\n", built.Name, policy.FormatSize(built.Size), built.Files, built.Digest)
	return err
}

// definition finds the folder of an image's definition: a built-in name, or a path.
func definition(name string) (fs.FS, error) {
	folder, err := images.Definition(name)
	if err == nil {
		return folder, nil
	}
	stat, statErr := os.Stat(name)
	switch {
	case statErr == nil && stat.IsDir():
		return os.DirFS(name), nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, usage("image %q: there is no built-in definition and no folder of that name: %v", name, images.Names())
	}
	return nil, err
}

type imageList struct {
	JSON bool `help:"Print one JSON array." name:"json"`
}

// Run lists the images.
func (c imageList) Run(s *session) error {
	store, err := s.store()
	if err != nil {
		return err
	}
	list, listErr := store.List()
	if c.JSON {
		if list == nil {
			list = []image.Image{}
		}
		return errors.Join(json.NewEncoder(s.Stdout).Encode(list), imageError(listErr))
	}
	table := tabwriter.NewWriter(s.Stdout, 2, 8, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tSIZE\tFILES\tCREATED\tDIGEST")
	for _, one := range list {
		const short = 19 // sha256: and 12 digits
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\n", one.Name, policy.FormatSize(one.Size), one.Files,
			one.Created.UTC().Format("2006-01-02 15:04"), one.Digest[:min(short, len(one.Digest))])
	}
	return errors.Join(table.Flush(), imageError(listErr))
}

type imageShow struct {
	Name string `arg:"" help:"Name or digest."`
}

// Run shows an image.
func (c imageShow) Run(s *session) error {
	store, err := s.store()
	if err != nil {
		return err
	}
	found, err := store.Show(c.Name)
	if err != nil {
		return imageError(err)
	}
	encoder := json.NewEncoder(s.Stdout)
	encoder.SetIndent("", "  ")
	return encoder.Encode(found)
}

type imageRm struct {
	Name string `arg:"" help:"Name."`
}

// Run removes an image.
func (c imageRm) Run(s *session) error {
	store, err := s.store()
	if err != nil {
		return err
	}
	return imageError(store.Remove(s.ctx, c.Name))
}

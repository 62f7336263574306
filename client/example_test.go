// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"glovebox/client"
)

// example returns a client of a server whose backend is a fake: its code is in a small language of its own.
func example() (*client.Client, func()) {
	url, end, err := server()
	if err != nil {
		panic(err)
	}
	c, err := client.New(client.Options{URL: url, Key: key})
	if err != nil {
		panic(err)
	}
	return c, func() {
		c.Close()
		if err := end(); err != nil {
			panic(err)
		}
	}
}

func ExampleClient_Run() {
	c, end := example() // client.New(client.Options{URL: "https://box.example", Key: key})
	defer end()
	x, err := c.Run(context.Background(), client.Request{
		Code: "print hello\ncat sales.csv\nwrite report.txt done",
		Files: []client.File{{Name: "sales.csv", Open: func() (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader("1,2\n")), nil
		}}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(x.Status, "\n", x.Stdout)
	for _, a := range x.Artifacts {
		content, err := c.Artifact(context.Background(), x.ID, a.Name)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer content.Close()
		fmt.Print(a.Name, ": ")
		io.Copy(os.Stdout, io.LimitReader(content, a.Size)) //nolint:errcheck // an example
	}
	// Output:
	// ok
	// hello
	// 1,2
	// report.txt: done
}

func ExampleClient_Stream() {
	c, end := example()
	defer end()
	x, err := c.Stream(context.Background(), client.Request{Code: "print one\nvalue 2\nraise ValueError boom"}, func(e client.Event) error {
		switch e.Kind {
		case client.KindStdout:
			fmt.Printf("printed %q\n", e.Text)
		case client.KindResult:
			fmt.Println("value", e.Data.Text())
		case client.KindError:
			fmt.Println("failed:", e.Fault.Name)
		}
		return nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(x.Status)
	// Output:
	// printed "one\n"
	// value 2
	// failed: ValueError
	// error
}

func ExampleClient_Wait() {
	c, end := example()
	defer end()
	x, err := c.Start(context.Background(), client.Request{Code: "print later"})
	if err == nil {
		x, err = c.Wait(context.Background(), x.ID)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(x.Stdout)
	// Output: later
}

func ExampleSandboxes() {
	c, end := example()
	defer end()
	ctx, boxes := context.Background(), c.Sandboxes()
	box, err := boxes.Create(ctx, client.Request{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer boxes.Delete(ctx, box.ID) //nolint:errcheck // an example
	for _, code := range []string{"set x 41", "show x"} {
		x, err := boxes.Execute(ctx, box.ID, client.Cell{Code: code})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Print(x.Stdout)
	}
	// Output: 41
}

func ExampleProblem() {
	c, end := example()
	defer end()
	_, err := c.Run(context.Background(), client.Request{Code: "print x", Policy: "lax"})
	if problem, ok := errors.AsType[*client.Problem](err); ok {
		fmt.Println(problem.Status, problem.Code)
		fmt.Println(problem.Faults[0])
	}
	// Output:
	// 400 invalid_request
	// policy "lax" is not known: choose one of standard, tight, strict
}

// SPDX-License-Identifier: Apache-2.0

// Package companies_test runs the demonstration in real sandboxes and checks its numbers by another way.
package companies_test

import (
	"archive/zip"
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// glovebox returns the built program, or skips where it, its image or the right to use it is missing.
func glovebox(t *testing.T) string {
	t.Helper()
	program, err := filepath.Abs("../../bin/glovebox")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(program); errors.Is(err, fs.ErrNotExist) {
		t.Skip("bin/glovebox is not built: run `make image`")
	}
	if out, err := exec.CommandContext(t.Context(), program, "image", "show", "python").CombinedOutput(); err != nil {
		t.Skipf("the image python is not there (%s): run `make image`", strings.TrimSpace(string(out)))
	}
	return program
}

// run returns what the program printed. A character without a glyph would be a warning, and is a failure here.
func run(t *testing.T, program string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), program, append([]string{"run"}, args...)...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("glovebox run %s: %v\n%s%s", strings.Join(args, " "), err, out, &stderr)
	}
	if strings.Contains(stderr.String(), "missing from") {
		t.Errorf("glovebox run %s: %s", strings.Join(args, " "), &stderr)
	}
	return string(out)
}

func TestNumbersAndChart(t *testing.T) {
	t.Parallel()
	program := glovebox(t)
	out := t.TempDir()
	run(t, program, "--out", out, "generate.py")
	workbook := filepath.Join(out, "companies.xlsx")
	printed := run(t, program, "--file", workbook, "--out", out, "analyse.py")

	ratios := debtRatios(t, workbook)
	all := ratios["全部"]
	if len(all) != 100 {
		t.Fatalf("the workbook has %d companies, not 100", len(all))
	}
	lines := make(map[string]string)
	for line := range strings.Lines(printed) {
		if words := strings.Fields(line); len(words) == 3 {
			lines[words[0]] = words[1] + " " + words[2]
		}
	}
	for industry, values := range ratios {
		sum := 0.0
		for _, value := range values {
			sum += value
		}
		want := fmt.Sprintf("%.2f %d", sum/float64(len(values)), len(values))
		if lines[industry] != want {
			t.Errorf("%s: printed %q, right is %q", industry, lines[industry], want)
		}
	}
	if len(lines) != len(ratios)+1 {
		t.Errorf("%d lines of three words, not a heading and %d rows:\n%s", len(lines), len(ratios), printed)
	}

	checkChart(t, filepath.Join(out, "debt-ratio.png"))
}

// checkChart wants a picture of the right size that is neither empty nor blurred: many pixels of the bars' own colour.
func checkChart(t *testing.T, name string) {
	t.Helper()
	const width, height = 1600, 900
	const leastInk = width * height / 20
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	picture, err := png.Decode(file)
	if err != nil {
		t.Fatal(err)
	}
	size := picture.Bounds().Size()
	if size.X != width || size.Y != height {
		t.Errorf("the chart measures %v, not %d x %d", size, width, height)
	}
	ink := 0
	for y := range size.Y {
		for x := range size.X {
			if r, g, b, _ := picture.At(x, y).RGBA(); r>>8 == 0x3b && g>>8 == 0x6e && b>>8 == 0xa5 {
				ink++
			}
		}
	}
	if ink < leastInk {
		t.Errorf("the chart has %d pixels of the bars' colour, fewer than %d", ink, leastInk)
	}
}

// sheetXML is a sheet as openpyxl writes it: texts stand in the cells.
type sheetXML struct {
	Rows []struct {
		Cells []struct {
			Text  string `xml:"is>t"`
			Value string `xml:"v"`
		} `xml:"c"`
	} `xml:"sheetData>row"`
}

// debtRatios reads the workbook without pandas: industry to ratios, and all of them under the name of the total.
func debtRatios(t *testing.T, workbook string) map[string][]float64 {
	t.Helper()
	archive, err := zip.OpenReader(workbook)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	file, err := archive.Open("xl/worksheets/sheet1.xml")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var sheet sheetXML
	if err := xml.NewDecoder(file).Decode(&sheet); err != nil {
		t.Fatal(err)
	}
	const columns, industryColumn, debtColumn = 5, 1, 3
	ratios := make(map[string][]float64)
	for i, row := range sheet.Rows[1:] {
		if len(row.Cells) != columns || row.Cells[industryColumn].Text == "" {
			t.Fatalf("row %d has %d cells or no industry", i+2, len(row.Cells))
		}
		value, err := strconv.ParseFloat(row.Cells[debtColumn].Value, 64)
		if err != nil {
			t.Fatal(err)
		}
		industry := row.Cells[industryColumn].Text
		ratios[industry] = append(ratios[industry], value)
		ratios["全部"] = append(ratios["全部"], value)
	}
	return ratios
}

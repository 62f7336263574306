// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// Range is a part of a file.
type Range struct {
	// Offset is its first byte, Length how many; zero is all to the end.
	Offset, Length int64
}

func (r Range) header() http.Header {
	if r == (Range{}) {
		return nil
	}
	text := fmt.Sprintf("bytes=%d-", r.Offset)
	if r.Length > 0 {
		text += strconv.FormatInt(r.Offset+r.Length-1, 10)
	}
	return http.Header{"Range": {text}}
}

// Artifact opens a file that an execution left, by its Name: all of it, or at most one part. The caller closes it, and
// bounds what it reads. A Problem still_running means that it is not there yet.
func (c *Client) Artifact(ctx context.Context, id, name string, part ...Range) (io.ReadCloser, error) {
	var path []string
	for element := range strings.SplitSeq(name, "/") {
		path = append(path, url.PathEscape(element))
	}
	return c.download(ctx, call{path: executionPath(id) + "/artifacts/" + strings.Join(path, "/")}, part)
}

// Output opens what a program printed: stdout, stderr or background, as much of it as was kept. The caller closes it.
func (c *Client) Output(ctx context.Context, id, stream string, part ...Range) (io.ReadCloser, error) {
	return c.download(ctx, call{path: executionPath(id) + "/output", query: url.Values{"stream": {stream}}}, part)
}

// download opens an answer that is a file. A download that breaks ends with io.ErrUnexpectedEOF.
func (c *Client) download(ctx context.Context, asked call, part []Range) (io.ReadCloser, error) {
	asked.method = http.MethodGet
	if len(part) > 0 {
		if part[0].Offset < 0 || part[0].Length < 0 {
			return nil, fmt.Errorf("a part of a file from %d with %d bytes is not possible", part[0].Offset, part[0].Length)
		}
		asked.header = part[0].header()
	}
	answer, err := c.send(ctx, asked)
	if err != nil {
		return nil, err
	}
	if asked.header != nil && answer.StatusCode != http.StatusPartialContent {
		_ = answer.Body.Close() // nothing was read of it
		return nil, fmt.Errorf("the server answered %s where a part of a file was asked for", answer.Status)
	}
	return answer.Body, nil
}

// SPDX-License-Identifier: Apache-2.0

package rootless

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"time"
)

// MinUIDs is the fewest subordinate uids that are of use: a thousand sandboxes.
const MinUIDs = 4096

// mapTimeout is how long the tools that map ids may take.
const mapTimeout = 10 * time.Second

// mapIDs maps the user to root of the namespace of a process, and behind it what is granted to the user.
func mapIDs(pid int) (Namespace, error) {
	uids, why := mapGranted(pid)
	if why == nil {
		return Namespace{UIDs: uids, Outer: os.Getuid()}, nil
	}
	if err := mapOwn(pid); err != nil {
		return Namespace{}, fmt.Errorf("%w; one uid alone: %w", why, err)
	}
	return Namespace{UIDs: 1, Outer: os.Getuid(), Why: why.Error()}, nil
}

// mapGranted maps the subordinate ids, by the tools that may.
func mapGranted(pid int) (int, error) {
	name := ""
	if me, err := user.LookupId(strconv.Itoa(os.Getuid())); err == nil {
		name = me.Username
	}
	uids, uidErr := granted("/etc/subuid", name)
	gids, gidErr := granted("/etc/subgid", name)
	if err := cmp.Or(uidErr, gidErr); err != nil {
		return 0, err
	}
	count := min(uids.count, gids.count)
	err := runMapper("newuidmap", pid, os.Getuid(), uids.first, count)
	if err == nil {
		// A failure here leaves the uids mapped and the groups not: then mapOwn fails as well.
		err = runMapper("newgidmap", pid, os.Getgid(), gids.first, count)
	}
	return 1 + count, err
}

func runMapper(tool string, pid, own, first, count int) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), mapTimeout, errors.New("it took too long"))
	defer cancel()
	args := []string{strconv.Itoa(pid), "0", strconv.Itoa(own), "1", "1", strconv.Itoa(first), strconv.Itoa(count)}
	output, err := exec.CommandContext(ctx, tool, args...).CombinedOutput() //nolint:gosec // one of two tools, and numbers
	if err != nil {
		return fmt.Errorf("%s: %w: %s", tool, err, strings.TrimSpace(string(output)))
	}
	return nil
}

// mapOwn maps the user's own ids alone, which takes no tool.
func mapOwn(pid int) error {
	dir := fmt.Sprintf("/proc/%d/", pid)
	write := func(name, text string) error {
		return os.WriteFile(dir+name, []byte(text), 0) //nolint:gosec // of our own child
	}
	return errors.Join(
		write("setgroups", "deny"),
		write("uid_map", fmt.Sprintf("0 %d 1", os.Getuid())),
		write("gid_map", fmt.Sprintf("0 %d 1", os.Getgid())),
	)
}

type idRange struct{ first, count int }

// granted returns the largest range of a file of lines "name or uid:first:count".
func granted(path, name string) (idRange, error) {
	file, err := os.Open(path)
	if err != nil {
		return idRange{}, err
	}
	defer file.Close()
	var best idRange
	for lines := bufio.NewScanner(file); lines.Scan(); {
		fields := strings.Split(strings.TrimSpace(lines.Text()), ":")
		if len(fields) != 3 || fields[0] != name && fields[0] != strconv.Itoa(os.Getuid()) {
			continue
		}
		first, firstErr := strconv.Atoi(fields[1])
		count, countErr := strconv.Atoi(fields[2])
		if firstErr == nil && countErr == nil && count > best.count {
			best = idRange{first, count}
		}
	}
	if best.count < MinUIDs {
		return idRange{}, fmt.Errorf("%s grants %d ids to uid %d (%s), and %d are needed", path, best.count, os.Getuid(), name, MinUIDs)
	}
	return best, nil
}

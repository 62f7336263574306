// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"io"
	"strconv"
)

// insideScript enters a root filesystem. Arguments: the root, "ro" or "rw", the
// user, then the command. It runs in new mount, pid, network, ipc and uts
// namespaces; its mounts vanish with them.
const insideScript = `
umask 022
root=$1 mode=$2 user=$3
shift 3
mount --bind "$root" "$root"
if [ "$mode" = ro ]; then mount -o remount,bind,ro "$root"; fi
mount -t tmpfs -o mode=755,size=1m,nosuid dev "$root/dev"
for device in null zero full random urandom; do
	: >"$root/dev/$device"
	mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir "$root/dev/shm"
mount -t tmpfs -o mode=1777,size=256m,nosuid,nodev shm "$root/dev/shm"
mount -t tmpfs -o mode=1777,size=1g,nosuid,nodev tmp "$root/tmp"
mount -t proc proc "$root/proc"
cd "$root"
exec chroot . /usr/bin/setpriv --reuid="$user" --regid="$user" --clear-groups \
	--inh-caps=-all --bounding-set=-all --no-new-privs -- \
	/usr/bin/env -i PATH=/usr/local/bin:/usr/bin:/bin HOME=/tmp LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 "$@"
`

// userID is the unprivileged user of an image.
const userID = 1000

// inside is a command that runs with a root filesystem as its root, without a
// network and without capabilities.
type inside struct {
	name     string
	root     string
	user     int  // 0 or userID
	writable bool // else the root is read-only, but for /tmp
	stdin    io.Reader
	args     []string
}

// run runs the command and returns its standard output.
func (i inside) run(ctx context.Context) ([]byte, error) {
	mode := "ro"
	if i.writable {
		mode = "rw"
	}
	args := append([]string{"sh", "-ec", insideScript, "sh", i.root, mode, strconv.Itoa(i.user)}, i.args...)
	return command{name: i.name, args: args, dir: "/", stdin: i.stdin, offline: true}.run(ctx)
}

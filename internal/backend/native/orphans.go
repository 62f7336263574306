// SPDX-License-Identifier: Apache-2.0

package native

// maxOrphans bounds the statuses kept for processes that nobody has asked for yet.
const maxOrphans = 4096

// orphans matches processes that ended after their zygote, which the keeper then reaps, with those who wait for them.
// Either side may come first. It is guarded by its keeperProcess.
type orphans struct {
	waiting map[int]func(status uint32)
	done    map[int]uint32
}

// ended takes the status of an orphan.
func (o *orphans) ended(pid int, status uint32) {
	if tell := o.waiting[pid]; tell != nil {
		delete(o.waiting, pid)
		go tell(status) // a guest that does not read must not stop the others' news
		return
	}
	if o.done == nil {
		o.done = make(map[int]uint32)
	}
	if len(o.done) < maxOrphans {
		o.done[pid] = status
	}
}

// wait calls tell, once, with the status of the process.
func (o *orphans) wait(pid int, tell func(status uint32)) {
	if status, known := o.done[pid]; known {
		delete(o.done, pid)
		go tell(status) // a guest that does not read must not stop the others' news
		return
	}
	if o.waiting == nil {
		o.waiting = make(map[int]func(uint32))
	}
	o.waiting[pid] = tell
}

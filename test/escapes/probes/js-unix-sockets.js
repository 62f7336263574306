// expect: contained
// kind: network; why: no socket of the host's, by path or in the abstract namespace, can be reached
const net = require('net')
for (const path of ['/run/glovebox/glovebox.sock', '/var/run/docker.sock', '/run/containerd/containerd.sock', '/run/dbus/system_bus_socket', '\0/tmp/.X11-unix/X0', '\0/containerd-shim/x']) {
  await new Promise((done) => net.connect({ path }, () => { console.log('BREACH: connected to', path); done() }).on('error', done))
}
console.log('CONTAINED')

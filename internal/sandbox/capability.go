// SPDX-License-Identifier: Apache-2.0

package sandbox

// Layer is one thing that a backend puts between code and host.
type Layer struct {
	// Name is stable: user_namespace, seccomp, landlock, cgroup_memory ...
	Name string `json:"name"`
	// Present says that it was tried on this host and works.
	Present bool `json:"present"`
	// Required says that the backend refuses to create a sandbox without it.
	Required bool `json:"required"`
	// Detail is what was seen: a version, or the error.
	Detail string `json:"detail,omitempty"`
	// Mend is the command or the setting that brings a missing layer.
	Mend string `json:"mend,omitempty"`
}

// Capabilities is what a backend can do on this host.
type Capabilities struct {
	// Available is false when a required layer is missing; Why then names it.
	Available bool    `json:"available"`
	Why       string  `json:"why,omitempty"`
	Layers    []Layer `json:"layers"`
	// Warm says whether sandboxes can be made warm (Class.Warm).
	Warm bool `json:"warm"`
	// MultiTenant says whether several tenants may share this host on this backend.
	MultiTenant bool `json:"multi_tenant"`
}

// Missing returns the required layers that are not present.
func (c Capabilities) Missing() []Layer {
	var missing []Layer
	for _, layer := range c.Layers {
		if layer.Required && !layer.Present {
			missing = append(missing, layer)
		}
	}
	return missing
}

// SPDX-License-Identifier: Apache-2.0

package sandbox

import "strings"

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
	// Advice says that every promise is kept without it, and that it is worth mending all the same.
	Advice bool `json:"advice,omitempty"`
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

// Lost returns the layers that the host lacks and sandboxes are made without: nobody silently gets less.
func (c Capabilities) Lost() []Layer {
	var lost []Layer
	for _, layer := range c.Layers {
		if !layer.Required && !layer.Present && !layer.Advice {
			lost = append(lost, layer)
		}
	}
	return lost
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

// DescribeLayers names layers that are missing, and what mends several of them once.
func DescribeLayers(layers []Layer) string {
	var texts []string
	for i := 0; i < len(layers); {
		first := layers[i]
		var names []string
		for ; i < len(layers) && layers[i].Mend == first.Mend; i++ {
			names = append(names, layers[i].Name)
		}
		text := strings.Join(names, ", ") + " (" + first.Detail + ")"
		if first.Mend != "" {
			text += ": " + first.Mend
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}

package registry

import (
	"bytes"
	"fmt"
	"os"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/locations/topology"
)

// rackOf returns where a datanode is: what it says itself, else what the mapping says of its host or
// its address. An error says that there can be nothing there. The caller holds mu, or is the only one.
func (r *Registry) rackOf(g *Registration) (string, error) {
	rack := g.Rack
	if rack == "" {
		var listed bool
		if rack, listed = r.mapping.Rack(g.Host); !listed && g.Address != "" {
			rack, _ = r.mapping.Rack(g.Address)
		}
	}
	location, err := r.opts.Schema.Locate(rack)
	if err != nil {
		return rack, err
	}
	return location, nil
}

// readMapping reads the mapping file, if there is to be one.
func (r *Registry) readMapping() (m *topology.Mapping, text []byte, err error) {
	path := r.opts.MappingFile
	if path == "" {
		return nil, nil, nil
	}
	text, err = os.ReadFile(path)
	if err == nil {
		m, err = r.parseMapping(text)
	}
	if err != nil {
		return nil, text, fmt.Errorf("%w: rack file %s: %v", muster.ErrInvalid, path, err)
	}
	return m, text, nil
}

func (r *Registry) parseMapping(text []byte) (*topology.Mapping, error) {
	rules, err := topology.ParseMapping(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	for _, rule := range rules {
		if _, err := r.opts.Schema.Locate(rule.Rack); err != nil {
			return nil, fmt.Errorf("the rack of %s: %w", rule.Match, err)
		}
	}
	return topology.NewMapping(rules)
}

// watchMapping puts the mapping file in force whenever its content changes; text is what
// is in force.
func (r *Registry) watchMapping(text []byte) {
	ticker := time.NewTicker(r.opts.MappingCheck)
	defer ticker.Stop()
	for good := true; ; {
		select {
		case <-r.stop:
			return
		case <-ticker.C:
		}
		mapping, now, err := r.readMapping()
		if err == nil && good && bytes.Equal(now, text) {
			continue
		}
		r.remap(mapping, err)
		good, text = err == nil, now
	}
}

// remap puts a mapping in force. With an error the old one stays.
func (r *Registry) remap(mapping *topology.Mapping, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	warning := ""
	if err != nil {
		warning = err.Error()
		if warning == r.warning {
			return
		}
		r.opts.Logger.Error("the rack file is bad; the racks stay as they were", "error", err)
	} else {
		r.mapping = mapping
		for _, n := range r.nodes {
			n.rack, _ = r.rackOf(&n.Registration)
		}
		r.opts.Logger.Info("new rack file", "rules", len(mapping.Rules()))
	}
	r.warning = warning
	r.publish()
}

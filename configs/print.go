package configs

import (
	"io"

	"go.yaml.in/yaml/v3"
)

// Print writes the configuration as YAML that [Load] reads to the same values.
func (c Config) Print(w io.Writer) error {
	out := yaml.NewEncoder(w)
	out.SetIndent(2)
	if err := out.Encode(c); err != nil {
		return err
	}
	return out.Close()
}

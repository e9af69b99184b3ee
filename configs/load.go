package configs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
)

// Sources is where [Load] reads from, beside the environment and the defaults.
type Sources struct {
	File  string         // YAML, TOML or JSON by its ending; empty: the one that MUSTER_CONFIG names, or none
	Flags *pflag.FlagSet // read are: data, listen, log-level, log-format, server, user, groups, reader, datanodes, host, rack and locations, as far as they are there; nil: none
	// Role is the section whose listen and data the flags of these names set; empty: those of
	// the namespace server, server.listen and data.
	Role string
}

// Load reads the configuration: flags, environment (MUSTER_SERVER_LISTEN for
// server.listen), file and defaults, the first that has a key. It refuses keys of the
// file and MUSTER_ variables that it does not know, and what [Config.Validate] refuses.
func Load(s Sources) (Config, error) {
	v := viper.New()
	if err := checkEnvironment(); err != nil {
		return Config{}, err
	}
	if err := bind(v, s); err != nil {
		return Config{}, err
	}
	if err := readFile(v, s.File); err != nil {
		return Config{}, err
	}
	var c Config
	if err := v.UnmarshalExact(&c, strict); err != nil {
		return Config{}, decodeError(err)
	}
	return c, c.Validate()
}

// bind makes the defaults, the environment and the flags known to v.
func bind(v *viper.Viper, s Sources) error {
	setDefaults(v, reflect.ValueOf(Default()), "")
	for _, key := range keys() {
		if err := v.BindEnv(append([]string{key}, envNames(key)...)...); err != nil {
			return err
		}
	}
	if s.Flags == nil {
		return nil
	}
	for name, key := range flagKeys {
		if s.Role != "" && (name == "listen" || name == "data") {
			key = s.Role + "." + name
		}
		if flag := s.Flags.Lookup(name); flag != nil && flag.Value.Type() != "bool" { // import --data is no folder
			if err := v.BindPFlag(key, flag); err != nil {
				return err
			}
		}
	}
	return nil
}

func setDefaults(v *viper.Viper, value reflect.Value, prefix string) {
	for field, value := range value.Fields() {
		key := prefix + field.Tag.Get("yaml")
		if value.Kind() == reflect.Struct {
			setDefaults(v, value, key+".")
		} else {
			v.SetDefault(key, value.Interface())
		}
	}
}

func readFile(v *viper.Viper, file string) error {
	if file == "" {
		file = os.Getenv(envConfig)
	}
	if file == "" {
		return nil
	}
	if !slices.Contains([]string{".yaml", ".yml", ".toml", ".json"}, filepath.Ext(file)) {
		return fmt.Errorf("configuration file %s: its name must end in .yaml, .toml or .json", file)
	}
	own := viper.New() // knows the file alone
	for _, v := range []*viper.Viper{own, v} {
		v.SetConfigFile(file)
		if err := v.ReadInConfig(); err != nil {
			return fmt.Errorf("configuration file %s: %w", file, withoutPath(err))
		}
	}
	found := slices.DeleteFunc(own.AllKeys(), func(key string) bool {
		return own.Get(key) == nil && slices.Contains(sections(), key) // an empty section
	})
	return checkKeys(file, found)
}

// withoutPath returns what is wrong with a file, which the message names already.
func withoutPath(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

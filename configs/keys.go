package configs

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
)

// envPrefix begins the name of every environment variable that is ours.
const envPrefix = "MUSTER_"

// envConfig names the configuration file.
const envConfig = envPrefix + "CONFIG"

// flagKeys are the flags that set a key. The flag's name also makes a short
// environment variable: --server is MUSTER_SERVER, which is the same as
// MUSTER_CLIENT_SERVER and goes before it.
var flagKeys = map[string]string{
	"data":       "data",
	"listen":     "server.listen",
	"log-level":  "log.level",
	"log-format": "log.format",
	"server":     "client.server",
	"user":       "client.user",
	"groups":     "client.groups",
	"reader":     "client.reader",
	"datanodes":  "datanode.count",
	"host":       "datanode.host",
	"rack":       "datanode.rack",
	"locations":  "locations.server",
}

// keys returns every key of a Config in the order of its fields.
func keys() []string { return fieldKeys(reflect.TypeFor[Config](), "") }

func fieldKeys(t reflect.Type, prefix string) []string {
	var found []string
	for field := range t.Fields() {
		key := prefix + field.Tag.Get("yaml")
		if field.Type.Kind() == reflect.Struct {
			found = append(found, fieldKeys(field.Type, key+".")...)
		} else {
			found = append(found, key)
		}
	}
	return found
}

// sections returns the first parts of the keys that have two.
func sections() []string {
	var found []string
	for _, key := range keys() {
		if section, _, ok := strings.Cut(key, "."); ok && !slices.Contains(found, section) {
			found = append(found, section)
		}
	}
	return found
}

// envNames returns the environment variables of key, the one that goes first first.
func envNames(key string) []string {
	var names []string
	for flag, k := range flagKeys {
		if k == key {
			names = append(names, envName(flag))
		}
	}
	if long := envName(key); !slices.Contains(names, long) {
		names = append(names, long)
	}
	return names
}

func envName(key string) string {
	return envPrefix + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(key))
}

// checkEnvironment refuses variables that are named like ours and are none. One that is
// empty counts as not set, as everywhere.
func checkEnvironment() error {
	known := []string{envConfig}
	for _, key := range keys() {
		known = append(known, envNames(key)...)
	}
	for _, variable := range os.Environ() {
		name, value, _ := strings.Cut(variable, "=")
		if strings.HasPrefix(name, envPrefix) && value != "" && !slices.Contains(known, name) {
			return fmt.Errorf("unknown environment variable %s; did you mean %s?", name, nearest(name, known))
		}
	}
	return nil
}

// checkKeys refuses keys of a file that are not ours.
func checkKeys(file string, found []string) error {
	known := keys()
	slices.Sort(found) // the same message every time
	for _, key := range found {
		switch {
		case slices.Contains(known, key):
		case slices.Contains(sections(), key):
			return fmt.Errorf("%s: %s is a section: write its keys below it", file, key)
		default:
			return fmt.Errorf("%s: unknown key %s; did you mean %s?", file, key, nearest(key, known))
		}
	}
	return nil
}

// nearest returns the word of known that takes the fewest edits to get from word.
func nearest(word string, known []string) string {
	return slices.MinFunc(known, func(a, b string) int { return distance(word, a) - distance(word, b) })
}

// distance is the number of single-byte edits between a and b (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1) // of the prefix of a so far, to each prefix of b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}

package configs_test

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/muster-fs/muster/configs"
)

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func mustLoad(t *testing.T, s configs.Sources) configs.Config {
	t.Helper()
	c, err := configs.Load(s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestNothingGivenLoadsTheDefaults(t *testing.T) {
	if c := mustLoad(t, configs.Sources{}); !reflect.DeepEqual(c, configs.Default()) {
		t.Errorf("got %+v, want %+v", c, configs.Default())
	}
}

func TestExampleFileIsTheDefaultsAndHasEveryKey(t *testing.T) {
	const file = "muster.example.yaml"
	if c := mustLoad(t, configs.Sources{File: file}); !reflect.DeepEqual(c, configs.Default()) {
		t.Errorf("got %+v, want %+v", c, configs.Default())
	}
	example, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var printed bytes.Buffer
	if err := configs.Default().Print(&printed); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(example)) {
		if text := strings.TrimSpace(line); text != "" && text[0] != '#' {
			lines = append(lines, line)
		}
	}
	if got := strings.Join(lines, ""); got != printed.String() {
		t.Errorf("the example without comments is\n%swant\n%s", got, &printed)
	}
}

// everyKeyChanged has no value of Default.
func everyKeyChanged() configs.Config {
	return configs.Config{
		Data: "/srv/muster: 1",
		Server: configs.Server{
			Listen: "[::1]:0", MaxConnections: 7, MaxCalls: 8, StopTimeout: configs.Duration(90 * time.Minute),
		},
		Namespace: configs.Namespace{
			ImageSize: 5 << 20, CacheSize: 1<<30 + 1, MemTableSize: 3 << 20, Superuser: "hdfs", RequestAge: configs.Duration(11 * time.Minute), RequestMax: 5000, Lease: configs.Duration(9 * time.Second),
		},
		Listing: configs.Listing{
			MaxPaths: 10, Limit: 11, MaxLimit: 12, PageSize: 64 << 10, SnapshotAge: configs.Duration(1500 * time.Millisecond),
		},
		Locations: configs.Locations{
			Server: "locations.example:9", CacheSize: 13, CacheTTL: configs.Duration(14 * time.Minute), Listen: "[::]:0", Data: "/srv/locations",
			Heartbeat: configs.Duration(15 * time.Millisecond), StaleAfter: configs.Duration(16 * time.Millisecond), DeadAfter: configs.Duration(17 * time.Millisecond),
			ReportGrace: configs.Duration(18 * time.Second), RackFile: "racks", ContainerBlocks: 19, OpenContainers: 20, Copies: 41, CopiesPerNode: 42, ReplicaGrace: configs.Duration(43 * time.Second), Tokens: configs.TokensOff,
			Levels: []configs.Level{{Name: "root", Cost: 1}, {Name: "dc", Cost: 5, Prefix: "dc", Default: "dc-0"}, {Name: "rack", Cost: 2, Default: "r"}, {Name: "node"}},
		},
		Datanode: configs.Datanode{
			Count: 21, Listen: "[::]:22", Data: []string{"/d1", "/d 2"}, Host: "dn1", Rack: "/r1", Reserve: 23 << 20, ScrubRate: 24 << 20,
			ScrubEvery: configs.Duration(25 * time.Hour), Copies: 26, CopyRate: 27 << 20,
		},
		Cluster: configs.Cluster{KeyFile: "key"},
		Log:     configs.Log{Level: -4, Format: "json"},
		Client: configs.Client{
			Server: "muster.example:1", User: "0123", Groups: []string{"a b", "007", "null"}, Connections: 2, Umask: 0o7,
		},
	}
}

func TestPrintedConfigurationLoadsToTheSameValues(t *testing.T) {
	want := everyKeyChanged()
	want.Server.StopTimeout = configs.Duration(59 * time.Minute)
	var printed bytes.Buffer
	if err := want.Print(&printed); err != nil {
		t.Fatal(err)
	}
	c := mustLoad(t, configs.Sources{File: writeFile(t, "muster.yaml", printed.String())})
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got %+v\nwant %+v\nprinted:\n%s", c, want, &printed)
	}
}

func TestEveryKeyCanBeSetInTheEnvironment(t *testing.T) {
	for name, value := range map[string]string{
		"DATA": "/srv/muster: 1", "SERVER_LISTEN": "[::1]:0", "SERVER_MAX_CONNECTIONS": "7", "SERVER_MAX_CALLS": "8", "SERVER_STOP_TIMEOUT": "59m",
		"NAMESPACE_IMAGE_SIZE": "5MiB", "NAMESPACE_CACHE_SIZE": "1073741825", "NAMESPACE_MEMTABLE_SIZE": "3MiB", "NAMESPACE_SUPERUSER": "hdfs", "NAMESPACE_REQUEST_AGE": "11m",
		"NAMESPACE_REQUEST_MAX": "5000", "NAMESPACE_LEASE": "9s", "LISTING_MAX_PATHS": "10", "LISTING_LIMIT": "11", "LISTING_MAX_LIMIT": "12", "LISTING_PAGE_SIZE": "64KiB",
		"LOCATIONS_SERVER": "locations.example:9", "LOCATIONS_CACHE_SIZE": "13", "LOCATIONS_CACHE_TTL": "14m", "LOCATIONS_LISTEN": "[::]:0", "LOCATIONS_DATA": "/srv/locations",
		"LOCATIONS_HEARTBEAT": "15ms", "LOCATIONS_STALE_AFTER": "16ms", "LOCATIONS_DEAD_AFTER": "17ms", "LOCATIONS_REPORT_GRACE": "18s", "LOCATIONS_RACK_FILE": "racks",
		"LOCATIONS_CONTAINER_BLOCKS": "19", "LOCATIONS_OPEN_CONTAINERS": "20", "LOCATIONS_TOKENS": "off", "LOCATIONS_COPIES": "41", "LOCATIONS_COPIES_PER_NODE": "42", "LOCATIONS_REPLICA_GRACE": "43s", "LOCATIONS_LEVELS": "root:1, dc:5:dc:dc-0, rack:2::r, node:0",
		"DATANODE_COUNT": "21", "DATANODE_LISTEN": "[::]:22", "DATANODE_DATA": "/d1, /d 2", "DATANODE_HOST": "dn1", "DATANODE_RACK": "/r1", "DATANODE_RESERVE": "23MiB",
		"DATANODE_SCRUB_RATE": "24MiB", "DATANODE_SCRUB_EVERY": "25h", "DATANODE_COPIES": "26", "DATANODE_COPY_RATE": "27MiB",
		"LISTING_SNAPSHOT_AGE": "1.5s", "CLUSTER_KEY_FILE": "key", "LOG_LEVEL": "debug", "LOG_FORMAT": "json", "CLIENT_SERVER": "muster.example:1",
		"CLIENT_USER": "0123", "CLIENT_GROUPS": "a b, 007,null", "CLIENT_CONNECTIONS": "2", "CLIENT_UMASK": "007",
	} {
		t.Setenv("MUSTER_"+name, value)
	}
	want := everyKeyChanged()
	want.Server.StopTimeout = configs.Duration(59 * time.Minute)
	if c := mustLoad(t, configs.Sources{}); !reflect.DeepEqual(c, want) {
		t.Errorf("got %+v\nwant %+v", c, want)
	}
}

func TestFlagsGoBeforeEnvironmentBeforeFileBeforeDefaults(t *testing.T) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.String("server", "", "")
	flags.String("user", "", "")
	flags.StringSlice("groups", nil, "")
	flags.String("reader", "", "")
	if err := flags.Parse([]string{"--server", "flag:1", "--groups", "g1,g2"}); err != nil {
		t.Fatal(err)
	}
	t.Setenv("MUSTER_SERVER", "env:1")
	t.Setenv("MUSTER_CLIENT_SERVER", "longenv:1")
	t.Setenv("MUSTER_LISTEN", "env:2")
	t.Setenv("MUSTER_USER", "env")
	t.Setenv("MUSTER_READER", "/env")
	t.Setenv("MUSTER_CONFIG", writeFile(t, "c.toml",
		"data = 'file'\n[server]\nlisten = 'file:2'\n[client]\nserver = 'file:1'\nuser = 'file'\ngroups = ['file']\n"))
	c := mustLoad(t, configs.Sources{Flags: flags})
	if c.Client.Server != "flag:1" || c.Server.Listen != "env:2" || c.Client.User != "env" || c.Client.Reader != "/env" || c.Data != "file" ||
		!reflect.DeepEqual(c.Client.Groups, []string{"g1", "g2"}) || c.Listing != configs.Default().Listing {
		t.Errorf("got %+v", c)
	}
}

func TestARoleHasItsOwnListenAndData(t *testing.T) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.String("listen", "", "")
	flags.String("data", "", "")
	if err := flags.Parse([]string{"--listen", "flag:1", "--data", "flag"}); err != nil {
		t.Fatal(err)
	}
	want := configs.Default()
	want.Locations.Listen, want.Locations.Data = "flag:1", "flag"
	if c := mustLoad(t, configs.Sources{Flags: flags, Role: "locations"}); !reflect.DeepEqual(c, want) {
		t.Errorf("got %+v", c)
	}
	if err := flags.Parse([]string{"--data", "flag,other"}); err != nil {
		t.Fatal(err)
	}
	want = configs.Default()
	want.Datanode.Listen, want.Datanode.Data = "flag:1", []string{"flag", "other"}
	if c := mustLoad(t, configs.Sources{Flags: flags, Role: "datanode"}); !reflect.DeepEqual(c, want) {
		t.Errorf("got %+v", c)
	}
}

func TestShortEnvironmentNameGoesBeforeTheLongOne(t *testing.T) {
	t.Setenv("MUSTER_SERVER", "short:1")
	t.Setenv("MUSTER_CLIENT_SERVER", "long:1")
	if c := mustLoad(t, configs.Sources{}); c.Client.Server != "short:1" {
		t.Errorf("client.server is %s", c.Client.Server)
	}
}

func TestEmptySectionsAndNullsAreTheDefaults(t *testing.T) {
	for _, text := range []string{"", "server:\n", "data:\nclient:\n  umask:\n  groups:\n"} {
		c := mustLoad(t, configs.Sources{File: writeFile(t, "muster.yaml", text)})
		if !reflect.DeepEqual(c, configs.Default()) {
			t.Errorf("%q gives %+v", text, c)
		}
	}
}

func TestJSONNumbersAreWholeNumbers(t *testing.T) {
	c := mustLoad(t, configs.Sources{File: writeFile(t, "muster.json", `{"listing": {"max_paths": 77}}`)})
	if c.Listing.MaxPaths != 77 {
		t.Errorf("max_paths is %d", c.Listing.MaxPaths)
	}
}

func TestBadFilesAreRefusedNamingKeyAndRemedy(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"unknown key":          {"listing: {max_path: 1}", "unknown key listing.max_path; did you mean listing.max_paths?"},
		"unknown top key":      {"dat: x", "unknown key dat; did you mean data?"},
		"unknown section":      {"sever: {listen: 'x:1'}", "unknown key sever.listen; did you mean server.listen?"},
		"key below a value":    {"data: {dir: x}", "unknown key data.dir; did you mean data?"},
		"value for a section":  {"server: x:1", "server is a section"},
		"number with no unit":  {"listing: {snapshot_age: 300}", "listing.snapshot_age: 300 must be text"},
		"text with no unit":    {"listing: {snapshot_age: '300'}", `listing.snapshot_age: "300" is no duration; write it with its unit`},
		"size as a number":     {"listing: {page_size: 1000}", "listing.page_size: 1000 must be text"},
		"size that is none":    {"listing: {page_size: many}", `listing.page_size: "many" is no size; write it like 64MiB`},
		"negative size":        {"listing: {page_size: -1MiB}", `listing.page_size: "-1MiB" is no size`},
		"fraction":             {"server: {max_calls: 1.5}", "server.max_calls: 1.5 is no whole number"},
		"word for a number":    {"server: {max_calls: many}", "server.max_calls: many is no whole number"},
		"mode as a number":     {"client: {umask: 022}", "client.umask: 18 must be text, in quotes"},
		"mode not octal":       {"client: {umask: '9'}", `client.umask: "9" is no octal mode`},
		"number for text":      {"client: {user: 12}", "client.user: 12 must be text, in quotes"},
		"number in a list":     {"client: {user: a, groups: [b, 12]}", "client.groups[1]: 12 must be text, in quotes"},
		"log level":            {"log: {level: loud}", `log.level: "loud" is no level; it must be debug, info, warn or error`},
		"log format":           {"log: {format: xml}", `log.format: "xml" is unknown; it must be one of [text json]`},
		"too small":            {"listing: {limit: 0}", "listing.limit: 0 is out of range; it must be 1 to 10000"},
		"too large":            {"listing: {page_size: 1MiB}", "listing.page_size: 1MiB is out of range; it must be 1KiB to 512KiB"},
		"duration too long":    {"server: {stop_timeout: 2h}", "server.stop_timeout: 2h is out of range; it must be 0s to 1h"},
		"umask too large":      {"client: {umask: '1000'}", "client.umask: 1000 is out of range; it must be 000 to 777"},
		"limit over the bound": {"listing: {limit: 9, max_limit: 8}", "listing.limit: 9 is out of range; it must be 1 to 8"},
		"no data":              {"data: ''", "data: must not be empty"},
		"no port":              {"server: {listen: localhost}", `server.listen: "localhost" is no address; write it as HOST:PORT`},
		"port too large":       {"server: {listen: 'a:70000'}", `server.listen: port "70000" of "a:70000" must be a number from 0 to 65535`},
		"client of port 0":     {"client: {server: 'a:0'}", `client.server: port "0" of "a:0" must be a number from 1`},
		"stale at once":        {"locations: {heartbeat: 30s}", "locations.stale_after: 30s must be more than the 30s of locations.heartbeat"},
		"dead before stale":    {"locations: {dead_after: 20s}", "locations.dead_after: 20s must be more than the 30s of locations.stale_after"},
		"never dead":           {"locations: {dead_after: 1000h}", "locations.dead_after: 1000h is out of range"},
		"location service":     {"locations: {server: here}", `locations.server: "here" is no address`},
		"no cache":             {"locations: {cache_size: 0}", "locations.cache_size: 0 is out of range; it must be 1 to 100000000"},
		"tokens as YAML 1.1":   {"locations: {tokens: true}", "locations.tokens: true must be text"},
		"tokens of no kind":    {"locations: {tokens: yes}", `locations.tokens: "yes" is unknown; it must be one of [auto on off]`},
		"a level alone":        {"locations: {levels: ['root:1']}", "locations.levels: 1 levels; name 2 to 16"},
		"level without a cost": {"locations: {levels: ['root:1', 'rack']}", `locations.levels[1]: "rack" is no level; write it as NAME:COST, such as rack:1`},
		"level of a bad cost":  {"locations: {levels: ['root:1', 'rack:-1']}", `locations.levels[1]: level rack: cost "-1" must be a number from 0`},
		"groups without user":  {"client: {groups: [a]}", "client.groups: [a] needs client.user"},
		"not YAML":             {"data: [", "configuration file"},
		"the same key twice":   {"data: a\ndata: b", "configuration file"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := configs.Load(configs.Sources{File: writeFile(t, "muster.yaml", test.text)})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want %q in it", err, test.want)
			}
		})
	}
}

func TestMissingOrStrangeFileIsRefusedByName(t *testing.T) {
	for file, want := range map[string]string{
		"/nowhere/muster.yaml":                 "configuration file /nowhere/muster.yaml: no such file or directory",
		writeFile(t, "muster.ini", "data = 1"): "its name must end in .yaml, .toml or .json",
	} {
		if _, err := configs.Load(configs.Sources{File: file}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error is %v, want %q in it", file, err, want)
		}
	}
}

func TestUnknownVariableIsRefusedNamingTheNearest(t *testing.T) {
	t.Setenv("MUSTER_SEVER", "x:1")
	_, err := configs.Load(configs.Sources{})
	const want = "unknown environment variable MUSTER_SEVER; did you mean MUSTER_SERVER?"
	if err == nil || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
}

func TestVariableIsNamedInItsError(t *testing.T) {
	t.Setenv("MUSTER_LISTING_LIMIT", "many")
	_, err := configs.Load(configs.Sources{})
	const want = "listing.limit: many is no whole number"
	if err == nil || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
}

func TestSizesAreWrittenWithoutLoss(t *testing.T) {
	for size, want := range map[configs.Size]string{
		0: "0B", 1: "1B", 1023: "1023B", 1024: "1KiB", 1025: "1025B", 3 << 29: "1536MiB", 1 << 40: "1TiB", 1 << 50: "1024TiB",
	} {
		var back configs.Size
		if err := back.UnmarshalText([]byte(size.String())); err != nil || back != size || size.String() != want {
			t.Errorf("%d is written %s, want %s; read back %d, %v", int64(size), size, want, int64(back), err)
		}
	}
}

// TestTokensNeedNoQuotes: on and off are words, though older YAML takes them for truth values.
func TestTokensNeedNoQuotes(t *testing.T) {
	for _, want := range []configs.Tokens{configs.TokensOn, configs.TokensOff, configs.TokensAuto} {
		c := mustLoad(t, configs.Sources{File: writeFile(t, "muster.yaml", "locations: {tokens: "+string(want)+"}")})
		if c.Locations.Tokens != want {
			t.Errorf("%s is %s", want, c.Locations.Tokens)
		}
	}
}

// Package configs holds Muster's typed configuration. [Load] reads it once from
// flags, environment, file and defaults, in this order of precedence, refuses keys
// that it does not know, and validates the result; [Config.Print] writes it back as
// a file that Load reads to the same values.
//
// A Config is a plain value: nothing here keeps state, so all of it is safe for
// concurrent use. Only commands import this package; the parts that are configured
// have options of their own.
package configs

import (
	"log/slog"
	"time"
)

// Config is everything that can be configured. The key of a value is made of the
// names in the tags, joined by dots: server.listen.
type Config struct {
	Data      string    `yaml:"data"` // folder of the server's store
	Server    Server    `yaml:"server"`
	Namespace Namespace `yaml:"namespace"`
	Listing   Listing   `yaml:"listing"`
	Locations Locations `yaml:"locations"`
	Datanode  Datanode  `yaml:"datanode"`
	Cluster   Cluster   `yaml:"cluster"`
	Log       Log       `yaml:"log"`
	Client    Client    `yaml:"client"`
}

// Server is what the server accepts and when it gives up.
type Server struct {
	Listen         string   `yaml:"listen"`          // host:port; port 0: any that is free
	MaxConnections int      `yaml:"max_connections"` // open at once; more are refused
	MaxCalls       int      `yaml:"max_calls"`       // in flight at once; more are UNAVAILABLE
	StopTimeout    Duration `yaml:"stop_timeout"`    // for calls in progress when the server stops
}

// Namespace is how the tree is kept.
type Namespace struct {
	ImageSize    Size     `yaml:"image_size"` // hot directories; 0: a quarter of the memory limit, at most 1.5 GiB
	CacheSize    Size     `yaml:"cache_size"` // blocks of the store
	MemTableSize Size     `yaml:"memtable_size"`
	Superuser    string   `yaml:"superuser"`   // empty: the user that the server runs as
	RequestAge   Duration `yaml:"request_age"` // how long results of commands are remembered for repeats
	RequestMax   int      `yaml:"request_max"` // how many of them
	Lease        Duration `yaml:"lease"`       // of a client that writes, after it was renewed
}

// Listing is what a page of a listing may hold.
type Listing struct {
	MaxPaths    int      `yaml:"max_paths"`    // of one page call, and waiting in a stream
	Limit       int      `yaml:"limit"`        // entries of a page unless the caller says
	MaxLimit    int      `yaml:"max_limit"`    // entries of a page whatever the caller says
	PageSize    Size     `yaml:"page_size"`    // bytes of a page's rows
	SnapshotAge Duration `yaml:"snapshot_age"` // after which a stream over one snapshot fails
}

// Locations is where blocks are found: how the location service works, and how a namespace
// server asks for it.
type Locations struct {
	Server    string   `yaml:"server"`     // host:port that a namespace server asks; empty: a service of its own
	CacheSize int      `yaml:"cache_size"` // containers that a namespace server remembers
	CacheTTL  Duration `yaml:"cache_ttl"`  // for how long

	Listen          string   `yaml:"listen"` // of a service in a process of its own; host:port; port 0: any that is free
	Data            string   `yaml:"data"`   // folder of its store
	Heartbeat       Duration `yaml:"heartbeat"`
	StaleAfter      Duration `yaml:"stale_after"` // without a heartbeat
	DeadAfter       Duration `yaml:"dead_after"`
	ReportGrace     Duration `yaml:"report_grace"` // after the start, for datanodes to report
	RackFile        string   `yaml:"rack_file"`    // empty: none
	Levels          []Level  `yaml:"levels"`       // of the topology, from the root to the nodes; empty: root, rack and node
	ContainerBlocks int      `yaml:"container_blocks"`
	OpenContainers  int      `yaml:"open_containers"` // of one replication, at a time
	Copies          int      `yaml:"copies"`          // of containers that lack replicas, at a time
	CopiesPerNode   int      `yaml:"copies_per_node"` // of them, to and from one datanode each
	ReplicaGrace    Duration `yaml:"replica_grace"`   // until a replica that lacks blocks gets them, or one too many is dropped
	Tokens          Tokens   `yaml:"tokens"`          // whether blocks are read and written with tokens alone
}

// Tokens says when a location service's blocks are read and written with tokens alone.
type Tokens string

// The values of Tokens.
const (
	TokensAuto Tokens = "auto" // if it listens on more than loopback
	TokensOn   Tokens = "on"
	TokensOff  Tokens = "off"
)

// Datanode is how a datanode keeps blocks: one in a process of its own, and those of muster up.
type Datanode struct {
	Count int `yaml:"count"` // of muster up

	Listen string   `yaml:"listen"` // of one in a process of its own; host:port; port 0: any that is free
	Data   []string `yaml:"data"`   // its folders, one on each disk
	Host   string   `yaml:"host"`   // that readers and writers dial; empty: that of listen, or the machine's name
	Rack   string   `yaml:"rack"`   // empty: what the location service's rack file says

	Reserve    Size     `yaml:"reserve"`     // kept free on each disk
	ScrubRate  Size     `yaml:"scrub_rate"`  // a second, on each disk
	ScrubEvery Duration `yaml:"scrub_every"` // after the end of a run
	Copies     int      `yaml:"copies"`      // of containers from other datanodes, at a time
	CopyRate   Size     `yaml:"copy_rate"`   // a second, all copies together
}

// Cluster is what the servers of one cluster share.
type Cluster struct {
	KeyFile string `yaml:"key_file"` // 32 bytes, raw or hexadecimal; empty: made in the data folder
}

// Log is what is logged on standard error.
type Log struct {
	Level  slog.Level `yaml:"level"`
	Format string     `yaml:"format"` // text or json
}

// Client is whom the commands talk to, and as whom.
type Client struct {
	Server      string   `yaml:"server"`      // host:port
	User        string   `yaml:"user"`        // empty: the operating system's user
	Groups      []string `yaml:"groups"`      // with no user: those of the operating system's user
	Reader      string   `yaml:"reader"`      // host, address or rack that replicas are ordered for; empty: this machine
	Connections int      `yaml:"connections"` // at once to one server
	Umask       Mode     `yaml:"umask"`       // taken from the modes of new entries
}

// Default returns the configuration of a server and a client on one machine.
func Default() Config {
	return Config{
		Data: "muster-data",
		Server: Server{
			Listen:         "127.0.0.1:9400",
			MaxConnections: 4096,
			MaxCalls:       1024,
			StopTimeout:    Duration(10 * time.Second),
		},
		Namespace: Namespace{
			CacheSize:    256 << 20,
			MemTableSize: 16 << 20,
			RequestAge:   Duration(10 * time.Minute),
			RequestMax:   2_000_000,
			Lease:        Duration(time.Minute),
		},
		Listing: Listing{
			MaxPaths:    1000,
			Limit:       1000,
			MaxLimit:    10_000,
			PageSize:    512 << 10,
			SnapshotAge: Duration(5 * time.Minute),
		},
		Locations: Locations{
			CacheSize:       100_000,
			CacheTTL:        Duration(6 * time.Hour),
			Listen:          "127.0.0.1:9401",
			Data:            "muster-locations",
			Heartbeat:       Duration(3 * time.Second),
			StaleAfter:      Duration(30 * time.Second),
			DeadAfter:       Duration(10 * time.Minute),
			ReportGrace:     Duration(time.Minute),
			Levels:          []Level{},
			ContainerBlocks: 1000,
			OpenContainers:  8,
			Copies:          20,
			CopiesPerNode:   2,
			ReplicaGrace:    Duration(5 * time.Minute),
			Tokens:          TokensAuto,
		},
		Datanode: Datanode{
			Count:      3,
			Listen:     "127.0.0.1:9402",
			Data:       []string{"muster-datanode"},
			Reserve:    1 << 30,
			ScrubRate:  8 << 20,
			ScrubEvery: Duration(14 * 24 * time.Hour),
			Copies:     2,
			CopyRate:   64 << 20,
		},
		Log: Log{Level: slog.LevelInfo, Format: "text"},
		Client: Client{
			Server:      "127.0.0.1:9400",
			Groups:      []string{},
			Connections: 64,
			Umask:       0o022,
		},
	}
}

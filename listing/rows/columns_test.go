package rows

import (
	"errors"
	"strings"
	"testing"

	"github.com/muster-fs/muster"
)

func TestParseColumns(t *testing.T) {
	for _, test := range []struct {
		names string
		want  Columns
	}{
		{"", DefaultColumns},
		{"name", requiredColumns},
		{"length,kind", requiredColumns | ColKind | ColLength},
		{"blocks,blocks", requiredColumns | ColBlocks},
		{strings.Join(AllColumns.Names(), ","), AllColumns},
	} {
		got, err := ParseColumns(strings.FieldsFunc(test.names, func(r rune) bool { return r == ',' }))
		if err != nil || got != test.want {
			t.Errorf("columns %q: %#x, %v; want %#x", test.names, uint32(got), err, uint32(test.want))
		}
	}
}

func TestUnknownColumnsAreNamed(t *testing.T) {
	_, err := ParseColumns([]string{"name", "sise"})
	for _, want := range []string{`"sise"`, "path_index, name, kind", "blocks"} {
		if err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, muster.ErrInvalid) {
			t.Errorf("error %v, want ErrInvalid with %s", err, want)
		}
	}
	err = (AllColumns | 1<<20 | 1<<15).Validate()
	for _, want := range []string{"columns 0x10ffff", "bits 0x108000", "0x7fff: path_index, name"} {
		if err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, muster.ErrInvalid) {
			t.Errorf("error %v, want ErrInvalid with %s", err, want)
		}
	}
	if err := AllColumns.Validate(); err != nil {
		t.Error(err)
	}
}

func TestNormalColumns(t *testing.T) {
	for c, want := range map[Columns]Columns{
		0:                          DefaultColumns,
		ColKind:                    requiredColumns | ColKind,
		AllColumns | 1<<numColumns: AllColumns,
	} {
		if got := c.Normal(); got != want {
			t.Errorf("%#x.Normal() = %#x, want %#x", uint32(c), uint32(got), uint32(want))
		}
	}
}

// The bits and the names are part of the wire format.
func TestColumnOrder(t *testing.T) {
	want := "path_index name kind length mtime atime mode owner group replication block_size inode_id flags link_target blocks"
	if got := strings.Join(AllColumns.Names(), " "); got != want {
		t.Errorf("columns are %s, want %s", got, want)
	}
	if ColBlocks != 1<<14 || ColInodeID != 1<<11 {
		t.Errorf("bits moved: blocks %#x, inode_id %#x", uint32(ColBlocks), uint32(ColInodeID))
	}
}

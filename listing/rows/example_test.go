package rows_test

import (
	"fmt"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing/rows"
)

func Example() {
	columns, err := rows.ParseColumns([]string{"kind", "length"})
	if err != nil {
		fmt.Println(err)
		return
	}
	b := rows.NewBuilder(columns)
	b.Append(0, &muster.Row{Kind: muster.File, Name: []byte("part-0"), Length: 42, Owner: []byte("hdfs")})
	b.Append(1, &muster.Row{Kind: muster.Directory, Name: []byte("year=2026")})
	frame := b.AppendFrame(nil)

	batch, err := rows.Decode(frame, columns)
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range batch.Len() {
		fmt.Println(batch.PathIndex(i), batch.Kind(i), batch.Name(i), batch.Length(i))
	}
	frame[len(frame)-1] ^= 1
	_, err = rows.Decode(frame, columns)
	fmt.Println(muster.CodeOf(err).Name())
	// Output:
	// 0 file part-0 42
	// 1 dir year=2026 0
	// CORRUPT
}

package client

// blockPaths is how many paths a block has room for.
const blockPaths = 512

// pathList are numbered paths. They lie in blocks of blockPaths, of which the last may
// have fewer; none ever changes, so that lists can share them.
type pathList struct {
	first  uint64 // index of the first path of the first block
	blocks [][]string
}

// at returns the path of an index, which the list must have.
func (l *pathList) at(index uint64) string {
	i := index - l.first
	return l.blocks[i/blockPaths][i%blockPaths]
}

// listOf returns the paths, numbered from 0. The list keeps them, and uses room if they
// take no more than one block.
func listOf(paths []string, room *[1][]string) pathList {
	if len(paths) <= blockPaths {
		room[0] = paths
		return pathList{blocks: room[:]}
	}
	var l pathList
	for ; len(paths) > blockPaths; paths = paths[blockPaths:] {
		l.blocks = append(l.blocks, paths[:blockPaths])
	}
	l.blocks = append(l.blocks, paths)
	return l
}

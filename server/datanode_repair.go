package server

import (
	"errors"
	"fmt"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/store"
)

// writer begins a copy of a block: in the place of the one that is damaged here, or as a new one.
func (s *nodeOrders) writer(id muster.BlockID, file uint64) (*store.Writer, error) {
	w, err := s.blocks.Repair(id)
	if errors.Is(err, muster.ErrNotFound) || errors.Is(err, muster.ErrNoData) {
		return s.blocks.CreateCopy(id, file) // it is not here, or not committed, which that refuses
	}
	return w, err
}

// damaged says that blocks of a container are damaged here after a copy, because the source does not
// have them.
func (s *nodeOrders) damaged(container uint64) error {
	for _, c := range s.blocks.Containers() {
		if c.ID == container && c.Damaged > 0 {
			return fmt.Errorf("%w: %d blocks are damaged here as before", muster.ErrCorrupt, c.Damaged)
		}
	}
	return nil
}

package bench

// Progress begins to show a step of so many parts. set says how many are done; stop ends it. A
// nil one shows nothing.
type Progress func(title string, parts int) (set func(done int), stop func())

func (p Progress) begin(title string, parts int) (set func(done int), stop func()) {
	if p == nil {
		return func(int) {}, func() {}
	}
	return p(title, parts)
}

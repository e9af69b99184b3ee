package bench

// Measurement is what one arm of an experiment did in one case with so many goroutines: medians
// of its rounds. All experiments but those of listings answer with it.
type Measurement struct {
	Bench        string `json:"bench"`
	Case         string `json:"case"`
	Arm          string `json:"arm"`
	Goroutines   int    `json:"goroutines"`
	OpsPerSecond Figure `json:"ops_per_s"` // of all goroutines together
	P50          Figure `json:"p50_us"`    // of the times that single operations took
	P99          Figure `json:"p99_us"`
	Ratio        Figure `json:"ratio"` // operations a second, to those of the arm that the others are held against
	Equal        bool   `json:"equal"` // its answers were those that they had to be
}

// Of is the measurement itself, also of one that adds to it.
func (m Measurement) Of() Measurement { return m }

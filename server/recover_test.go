package server

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/muster-fs/muster"
)

// TestJudge runs testdata/judge: what the replicas of a block answer, and what is decided.
func TestJudge(t *testing.T) {
	datadriven.RunTest(t, "testdata/judge", func(t *testing.T, d *datadriven.TestData) string {
		var answers []answer
		for _, arg := range d.CmdArgs {
			a := answer{standing: map[string]standing{"silent": silent, "dead": dead, "none": none, "has": has, "committed": committed}[arg.Key]}
			if len(arg.Vals) > 0 {
				var err error
				if a.length, err = strconv.ParseInt(arg.Vals[0], 10, 64); err != nil {
					d.Fatalf(t, "%v", err)
				}
			}
			answers = append(answers, a)
		}
		switch v := judge(answers); {
		case !v.ready:
			return "wait"
		case v.length == 0:
			return "drop"
		default:
			return fmt.Sprintln("commit", v.length)
		}
	})
}

// TestLeases: who renews keeps the lease, to the moment; who has none is not kept in memory.
func TestLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeases(time.Minute)
		files := map[muster.Holder]struct{}{penOne: {}}
		l.grant(penOne)
		l.renew(penTwo)
		if l.count() != 1 || !l.ended(penTwo) || l.ended(penOne) {
			t.Fatalf("%d leases; only one was granted", l.count())
		}
		time.Sleep(40 * time.Second)
		l.renew(penOne)
		l.grant(penTwo)
		time.Sleep(time.Minute)
		if l.ended(penOne) || l.ended(penTwo) {
			t.Error("a lease ends before its time")
		}
		time.Sleep(time.Nanosecond)
		if !l.ended(penOne) || !l.ended(penTwo) {
			t.Error("a lease does not end")
		}
		l.sweep(files)
		if l.count() != 1 {
			t.Errorf("%d leases after the sweep; one holder has files", l.count())
		}
		l.renewAll()
		if l.ended(penOne) {
			t.Error("renewAll renews nothing")
		}
	})
}

func TestLeasesOptions(t *testing.T) {
	for o, word := range map[Leases]string{
		{Lease: time.Millisecond}: "lease", {Lease: 48 * time.Hour}: "lease", {Unfinished: -1}: "unfinished", {DeleteRate: -1}: "-1 blocks",
	} {
		err := Options{Dir: "x", Leases: o}.Validate()
		wantWords(t, err, muster.ErrInvalid, word)
	}
	if err := (Leases{}).Validate(); err != nil {
		t.Error(err)
	}
}

func wantWords(t *testing.T, err error, code muster.Code, words ...string) {
	t.Helper()
	if err == nil || muster.CodeOf(err) != code {
		t.Errorf("got error %v, want %s", err, code.Name())
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
}

// TestAFileIsRecoveredWhenItsWriterIsSilent, and not before; whoever renews keeps it.
func TestAFileIsRecoveredWhenItsWriterIsSilent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k := newKept(t, Leases{})
		f, other := k.begin("/d/f", penOne), k.begin("/d/other", penTwo)
		for i, length := range []int64{70, 50, 60} {
			k.write(f.nodes[i], f.file, f.block, stored{length: length})
		}
		for range 3 {
			time.Sleep(20 * time.Second)
			k.upkeep.leases.renew(penTwo)
		}
		k.expect("a minute later", f, "writing", "70", "50", "60")
		time.Sleep(10 * time.Second)
		k.expect("after the lease", f, "50", "50 committed", "50 committed", "50 committed")
		k.expect("after the lease", other, "writing")
		if n := k.upkeep.leases.count(); n != 1 {
			t.Errorf("%d leases; only one client writes", n)
		}
		if n := k.upkeep.recoveries.Load(); n != 1 {
			t.Errorf("%d recoveries", n)
		}
		_, err := k.tree.Apply(t.Context(), request(muster.FinishFile{File: f.file, Holder: penOne, Last: 60}))
		wantWords(t, err, muster.ErrNotFound)
		if len(k.queue()) > 0 {
			t.Errorf("blocks to be deleted: %v", k.queue())
		}
	})
}

// TestWhatIsCommittedDecides: the writer has, and was gone before it finished the file.
func TestWhatIsCommittedDecides(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k := newKept(t, Leases{})
		f := k.begin("/f", penOne)
		for i, s := range []stored{{70, false}, {60, true}, {50, false}} {
			k.write(f.nodes[i], f.file, f.block, s)
		}
		time.Sleep(3 * time.Minute)
		k.expect("later", f, "60", "60 committed", "60 committed", "-")
	})
}

// TestARecoveryGoesOnAsReplicasComeBack: a replica that does not answer may be the only one with data.
func TestARecoveryGoesOnAsReplicasComeBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k := newKept(t, Leases{Unfinished: 2 * time.Minute})
		f := k.begin("/f", penOne)
		k.write(f.nodes[2], f.file, f.block, stored{length: 30})
		k.change(func() { k.down[f.nodes[2]] = true })
		time.Sleep(5 * time.Minute)
		k.expect("while one is down", f, "writing", "-", "-", "30")
		k.change(func() { k.down[f.nodes[2]] = false })
		time.Sleep(time.Minute)
		k.expect("when it is back", f, "30", "-", "-", "30 committed")
	})
}

// TestABlockThatNobodyHasIsDropped once all have said so, but for those that are dead.
func TestABlockThatNobodyHasIsDropped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k := newKept(t, Leases{})
		f := k.begin("/f", penOne)
		k.write(f.nodes[0], f.file, f.block, stored{length: 40, committed: true})
		k.more(&f, penOne, 40)
		k.change(func() { k.down[f.nodes[0]] = true })
		time.Sleep(9 * time.Minute)
		k.expect("while one is not dead", f, "writing")
		time.Sleep(3 * time.Minute)
		k.expect("when it is", f, "40")
		if q := k.queue(); len(q) != 1 || q[0] != f.block {
			t.Errorf("to be deleted: %v; not the block that was dropped, %v", q, f.block)
		}
	})
}

// TestNothingIsDroppedWhileNobodyAnswers, for however long.
func TestNothingIsDroppedWhileNobodyAnswers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k := newKept(t, Leases{})
		f := k.begin("/f", penOne)
		for i := range f.nodes {
			k.write(f.nodes[i], f.file, f.block, stored{length: 10})
		}
		k.change(func() {
			for _, n := range k.nodes {
				k.down[n] = true
			}
		})
		time.Sleep(3 * time.Hour)
		k.expect("hours later", f, "writing", "10", "10", "10")
		k.change(func() { k.down[f.nodes[1]] = false })
		time.Sleep(2 * time.Minute)
		k.expect("when one is back", f, "10", "10", "10 committed", "10")
		k.change(func() { clear(k.down) })
		time.Sleep(2 * time.Minute)
		k.expect("when all are back", f, "10", "10 committed", "10 committed", "10 committed")
	})
}

// TestARecoverySurvivesTheServer: it goes on at once after a crash in the middle, while the lease of
// a writer that is alive begins anew.
func TestARecoverySurvivesTheServer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k := newKept(t, Leases{})
		f := k.begin("/f", penOne)
		k.write(f.nodes[0], f.file, f.block, stored{length: 25})
		k.change(func() { k.outage = muster.ErrUnavailable })
		time.Sleep(90 * time.Second)
		k.expect("without a location service", f, "writing", "25")
		list, err := k.tree.Writings(0, 10)
		if err != nil || len(list) != 1 || list[0].Holder != recoverer {
			t.Fatalf("being written: %+v, %v; the server is to have the lease", list, err)
		}
		alive := k.begin("/alive", penTwo)
		k.crash()
		k.change(func() { k.outage = nil })
		time.Sleep(16 * time.Second)
		k.expect("after the crash", f, "25", "25 committed")
		time.Sleep(40 * time.Second)
		k.expect("within a lease after the crash", alive, "writing")
		time.Sleep(20 * time.Second)
		k.expect("a lease after the crash", alive, "0")
	})
}

// TestAFileThatIsGoneIsNoMatter: its block goes by the queue.
func TestAFileThatIsGoneIsNoMatter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k := newKept(t, Leases{})
		f := k.begin("/f", penOne)
		k.write(f.nodes[0], f.file, f.block, stored{length: 25})
		k.apply(muster.Delete{Path: "/f"})
		time.Sleep(2 * time.Minute)
		k.expect("later", f, "gone", "-")
		if len(k.queue()) > 0 || k.upkeep.recoveries.Load() != 0 {
			t.Errorf("to be deleted: %v, and %d recoveries", k.queue(), k.upkeep.recoveries.Load())
		}
	})
}

// TestUnfinishedCopies: what missed the commit is committed if it has as much, and deleted if it has
// less, or if no file has it; what is being written is left alone.
func TestUnfinishedCopies(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k := newKept(t, Leases{Lease: time.Hour})
		f := k.begin("/f", penOne)
		first := f
		for i, s := range []stored{{100, true}, {120, false}, {99, false}} {
			k.write(f.nodes[i], f.file, f.block, s)
		}
		k.more(&f, penOne, 100)
		k.write(f.nodes[0], f.file, f.block, stored{length: 7})
		stray, nodes := k.allocate()
		k.write(nodes[0], f.file, idOf(stray), stored{length: 5})
		nobody, others := k.allocate()
		k.write(others[0], 4711, idOf(nobody), stored{length: 5})
		time.Sleep(61 * time.Second)
		k.expect("the block before", first, "writing", "100 committed", "100 committed", "-")
		k.expect("the last block", f, "writing", "7", "-", "-")
		if got := k.on(nodes[0], idOf(stray)) + k.on(others[0], idOf(nobody)); got != "--" {
			t.Errorf("blocks of no file: %s", got)
		}
		k.write(others[0], 4711, idOf(nobody), stored{5, true})
		if got := k.on(others[0], idOf(nobody)); got != "-" {
			t.Errorf("a copy of a block of no file came back: %s", got)
		}
		k.write(first.nodes[2], f.file, first.block, stored{100, true})
		k.expect("when it was copied", first, "writing", "100 committed", "100 committed", "100 committed")
	})
}

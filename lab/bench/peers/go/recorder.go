package main

import (
	"math/bits"
	"sync"
	"time"
)

const (
	// The rate is also taken in windows, and the best is reported: as the other clients do.
	window20ms = 20 * time.Millisecond
	// A run goes on until it has as many calls.
	least = 64
	// Durations are kept to 1 in 1024 of theirs.
	subBits = 10
)

// Recorder is what callers note their calls in. Calls that end during the warm-up are left out.
type Recorder struct {
	mutex       sync.Mutex
	from, until time.Time
	count       uint64
	buckets     [(64 - subBits + 1) << subBits]uint64
	windows     []uint32
}

func newRecorder(warmUp, length time.Duration) *Recorder {
	from := time.Now().Add(warmUp)
	return &Recorder{from: from, until: from.Add(length), windows: make([]uint32, length/window20ms)}
}

// record notes the end of a call and tells whether to make another.
func (r *Recorder) record(sent, now time.Time) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if !now.Before(r.until) {
		if r.count >= least {
			return false
		}
		r.until = now
	}
	if !now.Before(r.from) {
		r.count++
		r.buckets[bucket(uint64(now.Sub(sent)))]++
		if window := int(now.Sub(r.from) / window20ms); window < len(r.windows) {
			r.windows[window]++
		}
	}
	return true
}

func (r *Recorder) figures() map[string]float64 {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	figures := map[string]float64{
		"p50_us":     r.quantile(0.5),
		"p99_us":     r.quantile(0.99),
		"p999_us":    r.quantile(0.999),
		"rate_per_s": float64(r.count) / r.until.Sub(r.from).Seconds(),
	}
	if len(r.windows) > 0 {
		best := uint32(0)
		for _, count := range r.windows {
			best = max(best, count)
		}
		figures["best_rate_per_s"] = float64(best) / window20ms.Seconds()
	}
	return figures
}

// quantile is in microseconds.
func (r *Recorder) quantile(q float64) float64 {
	rank, seen := q*float64(r.count), uint64(0)
	for index, count := range r.buckets {
		seen += count
		if count > 0 && float64(seen) >= rank {
			return float64(highest(index)) / 1e3
		}
	}
	return 0
}

// bucket is the place of a duration in nanoseconds: below 2^(subBits+1) each has its own, above as many share one as
// make up 1 in 2^subBits.
func bucket(nanos uint64) int {
	shift := max(bits.Len64(nanos)-subBits-1, 0)
	return shift<<subBits + int(nanos>>shift)
}

// highest is the longest duration that has this place.
func highest(index int) uint64 {
	shift := max(index>>subBits-1, 0)
	return uint64(index-shift<<subBits+1)<<shift - 1
}

package main

import "testing"

func TestEveryDurationIsKeptToOneInAThousand(t *testing.T) {
	for _, nanos := range []uint64{0, 1, 2047, 2048, 2049, 4095, 4096, 123_456, 987_654_321, 1 << 40, 1<<63 - 1} {
		index := bucket(nanos)
		kept := highest(index)
		if kept < nanos || float64(kept-nanos) > float64(nanos)/1000 {
			t.Errorf("%d ns became %d ns", nanos, kept)
		}
		if bucket(kept) != index || bucket(kept+1) != index+1 {
			t.Errorf("%d ns is not the longest in its place", kept)
		}
	}
}

// gRPC for Go as a peer: an echo of bytes, and a client that keeps calls in flight.
//
// Messages are passed on as the bytes that they are: less work than protobuf would be, to gRPC's advantage. Whoever
// starts it pins it to a core.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"time"
)

func main() {
	if len(os.Args) < 2 {
		fail(fmt.Errorf("usage: grpc-go serve|drive [FLAGS]"))
	}
	// The one core that it's pinned to; and memory is there, so that collections can be rare.
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(800)
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	switch os.Args[1] {
	case "serve":
		workers := flags.Bool("workers", false, "serve streams on goroutines that stay")
		_ = flags.Parse(os.Args[2:])
		fail(serve(*workers))
	case "drive":
		var load Load
		flags.StringVar(&load.address, "address", "", "where the server listens")
		flags.IntVar(&load.bytes, "bytes", 64, "length of a message")
		flags.IntVar(&load.inFlight, "in-flight", 1, "calls in flight")
		flags.IntVar(&load.connections, "connections", 1, "connections that they are spread over")
		flags.DurationVar(&load.warmUp, "warm-up", time.Second, "how long calls are left out")
		flags.DurationVar(&load.time, "time", time.Second, "how long to measure")
		_ = flags.Parse(os.Args[2:])
		fail(drive(load))
	default:
		fail(fmt.Errorf("no command is called %q", os.Args[1]))
	}
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "grpc-go:", err)
		os.Exit(1)
	}
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
)

// Load is what the client does.
type Load struct {
	address               string
	bytes                 int
	inFlight, connections int
	warmUp, time          time.Duration
}

// drive keeps calls in flight, a goroutine for each, and prints what was measured.
func drive(load Load) error {
	connections := make([]*grpc.ClientConn, load.connections)
	for i := range connections {
		connection, err := grpc.NewClient("passthrough:///"+load.address,
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.ForceCodecV2(AsIs{})),
			grpc.WithInitialWindowSize(window),
			grpc.WithInitialConnWindowSize(window),
			grpc.WithReadBufferSize(buffer),
			grpc.WithWriteBufferSize(buffer),
		)
		if err != nil {
			return err
		}
		connections[i] = connection
		if err := call(connection, nil); err != nil {
			return err
		}
	}
	message := bytes.Repeat([]byte{7}, load.bytes)
	recorder := newRecorder(load.warmUp, load.time)
	ended := make(chan error)
	for caller := range load.inFlight {
		go func() { ended <- calls(connections[caller%len(connections)], message, recorder) }()
	}
	for range load.inFlight {
		if err := <-ended; err != nil {
			return err
		}
	}
	return json.NewEncoder(os.Stdout).Encode(recorder.figures())
}

func calls(connection *grpc.ClientConn, message []byte, recorder *Recorder) error {
	for {
		sent := time.Now()
		if err := call(connection, message); err != nil {
			return err
		}
		if !recorder.record(sent, time.Now()) {
			return nil
		}
	}
}

func call(connection *grpc.ClientConn, message []byte) error {
	request := Message{mem.BufferSlice{mem.SliceBuffer(message)}}
	var reply Message
	if err := connection.Invoke(context.Background(), method, &request, &reply); err != nil {
		return err
	}
	length := reply.data.Len()
	reply.data.Free()
	if length != len(message) {
		return fmt.Errorf("the echo is %d bytes long", length)
	}
	return nil
}

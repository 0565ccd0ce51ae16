package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
)

const (
	method = "/peers.Echo/Echo"
	// Windows and buffers that the messages of no case ever fill.
	window = 4 << 20
	buffer = 128 << 10
)

// Message is bytes that nobody looks into.
type Message struct{ data mem.BufferSlice }

// AsIs is the codec of messages. gRPC frees what is marshalled and, when it is unmarshalled, what it came in.
type AsIs struct{}

func (AsIs) Marshal(v any) (mem.BufferSlice, error) {
	message, ok := v.(*Message)
	if !ok {
		return nil, fmt.Errorf("%T is no message", v)
	}
	return message.data, nil
}

func (AsIs) Unmarshal(data mem.BufferSlice, v any) error {
	message, ok := v.(*Message)
	if !ok {
		return fmt.Errorf("%T is no message", v)
	}
	data.Ref()
	message.data = data
	return nil
}

func (AsIs) Name() string { return "as-is" }

// serve prints where it listens and serves until standard input ends.
func serve(workers bool) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	options := []grpc.ServerOption{
		grpc.ForceServerCodecV2(AsIs{}),
		grpc.InitialWindowSize(window),
		grpc.InitialConnWindowSize(window),
		grpc.ReadBufferSize(buffer),
		grpc.WriteBufferSize(buffer),
		grpc.MaxConcurrentStreams(1024),
	}
	if workers {
		options = append(options, grpc.NumStreamWorkers(1))
	}
	server := grpc.NewServer(options...)
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "peers.Echo",
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "Echo", Handler: echo}},
		Streams: []grpc.StreamDesc{
			{StreamName: "PingPong", Handler: pingPong, ServerStreams: true, ClientStreams: true},
			{StreamName: "Stream", Handler: stream, ServerStreams: true},
		},
	}, nil)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	fmt.Println("listens on", listener.Addr())
	return server.Serve(listener)
}

func echo(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	message := new(Message)
	if err := decode(message); err != nil {
		return nil, err
	}
	return message, nil
}

// pingPong answers each message with itself.
func pingPong(_ any, stream grpc.ServerStream) error {
	for {
		message := new(Message)
		if err := stream.RecvMsg(message); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := stream.SendMsg(message); err != nil {
			return err
		}
	}
}

// stream answers a message with a thousand like it.
func stream(_ any, stream grpc.ServerStream) error {
	message := new(Message)
	if err := stream.RecvMsg(message); err != nil {
		return err
	}
	defer message.data.Free()
	for range 1000 {
		message.data.Ref()
		if err := stream.SendMsg(message); err != nil {
			return err
		}
	}
	return nil
}

package grpc.testing;

import com.google.protobuf.Empty;
import org.apache.dubbo.common.stream.StreamObserver;

/**
 * The service, whose full name is this interface's and whose methods are called as here. Its messages are all of the
 * type that has no fields: what fields they have is then unknown to it, and kept. So no code needs to be generated.
 */
public interface TestService {
    Empty EmptyCall(Empty request);

    Empty UnaryCall(Empty request);

    void StreamingOutputCall(Empty request, StreamObserver<Empty> answers);

    StreamObserver<Empty> StreamingInputCall(StreamObserver<Empty> answers);

    StreamObserver<Empty> FullDuplexCall(StreamObserver<Empty> answers);
}

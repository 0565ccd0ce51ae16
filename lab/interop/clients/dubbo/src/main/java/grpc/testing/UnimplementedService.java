package grpc.testing;

import com.google.protobuf.Empty;

/** No server has it. */
public interface UnimplementedService {
    Empty UnimplementedCall(Empty request);
}

package greenwave.interop;

import com.google.protobuf.Empty;

/** Tells how much time a call has left at the server. */
public interface Witness {
    Empty Budget(Empty request);
}

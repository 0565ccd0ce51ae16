"""Calls the interop server by grpcio: client.py ADDRESS FEATURE...

The server is secured if the variable AUTHORITY names a file: that of whom to believe, in the PEM format.
Prints `ok FEATURE`, or `fails FEATURE: WHY`.
"""

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc

sys.path.insert(0, os.environ["PROTO"])
testing, services = grpc.protos_and_services("testing.proto")
witness, witnesses = grpc.protos_and_services("witness.proto")

ADDRESS = sys.argv[1]
SIZES = [31415, 9, 2653, 58979]
REQUESTS = [27182, 8, 1828, 45904]
TEXT = "\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP 😈\t\n"
LIMIT = 10
OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


class Wrong(Exception):
    """Something came that should not have."""


def check(holds, what):
    if not holds:
        raise Wrong(what)


def channel(options=(), **more):
    options = OPTIONS + list(options)
    authority = os.environ.get("AUTHORITY")
    if authority is None:
        return grpc.insecure_channel(ADDRESS, options=options, **more)
    with open(authority, "rb") as file:
        credentials = grpc.ssl_channel_credentials(file.read())
    return grpc.secure_channel(ADDRESS, credentials, options=options, **more)


CHANNEL = channel()
STUB = services.TestServiceStub(CHANNEL)


def payload(size):
    return testing.Payload(body=bytes(size))


def requests(sizes=SIZES):
    for asked, sent in zip(sizes, REQUESTS):
        parameters = [testing.ResponseParameters(size=asked)]
        yield testing.StreamingOutputCallRequest(response_parameters=parameters, payload=payload(sent))


def refused(call, code):
    try:
        call()
    except grpc.RpcError as error:
        check(error.code() == code, f"{error.code()}: {error.details()}")
        return error
    raise Wrong(f"it succeeded, which should have been {code}")


def lengths(answers):
    return [len(answer.payload.body) for answer in answers]


class Turns:
    """Requests that are sent one by one, when asked to."""

    def __init__(self):
        self.ready, self.next, self.ended = threading.Semaphore(0), [], False

    def send(self, request):
        self.next.append(request)
        self.ready.release()

    def end(self):
        self.ended = True
        self.ready.release()

    def __iter__(self):
        return self

    def __next__(self):
        self.ready.acquire()
        if not self.next:
            raise StopIteration
        return self.next.pop(0)


def empty_unary():
    check(STUB.EmptyCall(testing.Empty(), timeout=LIMIT) == testing.Empty(), "not empty")


def large_unary():
    request = testing.SimpleRequest(response_size=314159, payload=payload(271828))
    answer = STUB.UnaryCall(request, timeout=LIMIT)
    check(len(answer.payload.body) == 314159, f"{len(answer.payload.body)} bytes")


def cacheable_unary():
    request = testing.SimpleRequest(response_size=8, payload=payload(8))
    answer = STUB.CacheableUnaryCall(request, timeout=LIMIT, metadata=[("x-user-ip", "1.2.3.4")])
    check(len(answer.payload.body) == 8, f"{len(answer.payload.body)} bytes")


def client_streaming():
    messages = (testing.StreamingInputCallRequest(payload=payload(size)) for size in REQUESTS)
    answer = STUB.StreamingInputCall(messages, timeout=LIMIT)
    check(answer.aggregated_payload_size == sum(REQUESTS), answer.aggregated_payload_size)


def server_streaming():
    parameters = [testing.ResponseParameters(size=size) for size in SIZES]
    request = testing.StreamingOutputCallRequest(response_parameters=parameters)
    found = lengths(STUB.StreamingOutputCall(request, timeout=LIMIT))
    check(found == SIZES, found)


def ping_pong():
    turns = Turns()
    answers = STUB.FullDuplexCall(turns, timeout=LIMIT)
    for request, size in zip(requests(), SIZES):
        turns.send(request)
        found = len(next(answers).payload.body)
        check(found == size, f"{found} bytes")
    turns.end()
    check(lengths(answers) == [], "more answers than requests")


def half_duplex():
    found = lengths(STUB.HalfDuplexCall(requests(), timeout=LIMIT))
    check(found == SIZES, found)


def empty_stream():
    found = lengths(STUB.FullDuplexCall(iter(()), timeout=LIMIT))
    check(found == [], found)


def cancel_after_begin():
    call = STUB.StreamingInputCall.future(Turns(), timeout=LIMIT)
    call.cancel()
    check(call.code() == grpc.StatusCode.CANCELLED, call.code())


def cancel_after_first_response():
    turns = Turns()
    call = STUB.FullDuplexCall(turns, timeout=LIMIT)
    turns.send(next(requests()))
    check(len(next(call).payload.body) == SIZES[0], "the first answer")
    call.cancel()
    refused(lambda: next(call), grpc.StatusCode.CANCELLED)
    turns.end()


def timeout_on_sleeping_server():
    turns = Turns()
    call = STUB.FullDuplexCall(turns, timeout=0.001)
    turns.send(testing.StreamingOutputCallRequest(payload=payload(27182)))
    refused(lambda: list(call), grpc.StatusCode.DEADLINE_EXCEEDED)
    turns.end()


def deadline():
    stub = witnesses.WitnessStub(CHANNEL)
    left = stub.Budget(witness.Nothing(), timeout=7)
    # gRPC's core rounds what it sends up.
    check(left.limited and 4_000_000 < left.micros <= 7_200_000, str(left.micros))
    check(not stub.Budget(witness.Nothing()).limited, "a limit that nobody has set")


def expired():
    # The least that goes over the wire is a millisecond, in which a large answer isn't there.
    def hurried():
        for _ in range(50):
            STUB.UnaryCall(testing.SimpleRequest(response_size=16_000_000), timeout=0.001)

    refused(hurried, grpc.StatusCode.DEADLINE_EXCEEDED)


def status_code_and_message():
    status = testing.EchoStatus(code=2, message="test status message")
    request = testing.SimpleRequest(response_status=status)
    failed = refused(lambda: STUB.UnaryCall(request, timeout=LIMIT), grpc.StatusCode.UNKNOWN)
    check(failed.details() == status.message, failed.details())
    request = testing.StreamingOutputCallRequest(response_status=status)
    failed = refused(lambda: list(STUB.FullDuplexCall(iter([request]), timeout=LIMIT)), grpc.StatusCode.UNKNOWN)
    check(failed.details() == status.message, failed.details())


def special_status_message():
    request = testing.SimpleRequest(response_status=testing.EchoStatus(code=2, message=TEXT))
    failed = refused(lambda: STUB.UnaryCall(request, timeout=LIMIT), grpc.StatusCode.UNKNOWN)
    check(failed.details() == TEXT, repr(failed.details()))


def echoed(initial, trailing):
    check(dict(initial).get("x-grpc-test-echo-initial") == "test_initial_metadata_value", f"headers {initial}")
    check(dict(trailing).get("x-grpc-test-echo-trailing-bin") == b"\xab\xab\xab", f"trailers {trailing}")


def custom_metadata():
    said = [
        ("x-grpc-test-echo-initial", "test_initial_metadata_value"),
        ("x-grpc-test-echo-trailing-bin", b"\xab\xab\xab"),
    ]
    request = testing.SimpleRequest(response_size=314159, payload=payload(271828))
    _, call = STUB.UnaryCall.with_call(request, timeout=LIMIT, metadata=said)
    echoed(call.initial_metadata(), call.trailing_metadata())
    call = STUB.FullDuplexCall(requests(), timeout=LIMIT, metadata=said)
    check(lengths(call) == SIZES, "answers")
    echoed(call.initial_metadata(), call.trailing_metadata())


def unimplemented(path):
    refused(lambda: CHANNEL.unary_unary(path)(b"", timeout=LIMIT), grpc.StatusCode.UNIMPLEMENTED)


def unimplemented_method():
    unimplemented("/grpc.testing.TestService/UnimplementedCall")


def unimplemented_service():
    unimplemented("/grpc.testing.UnimplementedService/UnimplementedCall")


def client_compressed_unary():
    stub = services.TestServiceStub(channel(compression=grpc.Compression.Gzip))
    request = testing.SimpleRequest(
        response_size=314159, payload=payload(271828), expect_compressed=testing.BoolValue(value=True)
    )
    refused(lambda: STUB.UnaryCall(request, timeout=LIMIT), grpc.StatusCode.INVALID_ARGUMENT)
    check(len(stub.UnaryCall(request, timeout=LIMIT).payload.body) == 314159, "the answer's length")
    request.expect_compressed.value = False
    check(len(STUB.UnaryCall(request, timeout=LIMIT).payload.body) == 314159, "the answer's length")


def client_compressed_streaming():
    stub = services.TestServiceStub(channel(compression=grpc.Compression.Gzip))
    message = testing.StreamingInputCallRequest(
        payload=payload(27182), expect_compressed=testing.BoolValue(value=True)
    )
    found = stub.StreamingInputCall(iter([message]), timeout=LIMIT).aggregated_payload_size
    check(found == 27182, found)


def health_check():
    call = CHANNEL.unary_unary("/grpc.health.v1.Health/Check")
    check(call(b"", timeout=LIMIT) == b"\x08\x01", "the server is not SERVING")
    name = b"grpc.testing.TestService"
    check(call(b"\x0a" + bytes([len(name)]) + name, timeout=LIMIT) == b"\x08\x01", "the service is not SERVING")
    refused(lambda: call(b"\x0a\x01x", timeout=LIMIT), grpc.StatusCode.NOT_FOUND)


def health_watch():
    watch = CHANNEL.unary_stream("/grpc.health.v1.Health/Watch")(b"", timeout=LIMIT)
    check(next(watch) == b"\x08\x01", "the server is not SERVING")
    watch.cancel()


def many_at_once():
    sizes = [number % 700 for number in range(500)]
    calls = [STUB.UnaryCall.future(testing.SimpleRequest(response_size=size), timeout=LIMIT) for size in sizes]
    check(lengths(call.result() for call in calls) == sizes, "answers of other lengths")


def many_connections():
    def one(number):
        # Channels with the same arguments share a connection.
        options = [("interop.number", number), ("grpc.use_local_subchannel_pool", 1)]
        with channel(options) as own:
            request = testing.SimpleRequest(response_size=number)
            return len(services.TestServiceStub(own).UnaryCall(request, timeout=LIMIT).payload.body)

    with ThreadPoolExecutor(50) as threads:
        check(list(threads.map(one, range(50))) == list(range(50)), "answers of other lengths")


def main():
    for feature in sys.argv[2:]:
        try:
            globals()[feature]()
            print("ok", feature, flush=True)
        except grpc.RpcError as error:
            print(f"fails {feature}: {error.code().name} {error.details()!r}", flush=True)
        except Exception as error:
            print(f"fails {feature}: {' '.join(repr(error).split())}", flush=True)


main()
os._exit(0)

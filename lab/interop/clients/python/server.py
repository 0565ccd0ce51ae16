"""Serves the interop services by grpcio: server.py [CERTIFICATE KEY], both PEM files.

Prints `listens on ADDRESS`, and ends when its standard input does.
"""

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import grpc

sys.path.insert(0, os.environ["PROTO"])
testing, services = grpc.protos_and_services("testing.proto")
witness, witnesses = grpc.protos_and_services("witness.proto")

# Each call has a thread while it is served; so many come at once.
THREADS = 600
CODES = {code.value[0]: code for code in grpc.StatusCode}
# A client that states no deadline is given one of some centuries here.
UNLIMITED = 10**9


def echo(context):
    said = dict(context.invocation_metadata())
    initial, trailing = said.get("x-grpc-test-echo-initial"), said.get("x-grpc-test-echo-trailing-bin")
    if initial is not None:
        context.send_initial_metadata([("x-grpc-test-echo-initial", initial)])
    if trailing is not None:
        context.set_trailing_metadata([("x-grpc-test-echo-trailing-bin", trailing)])


def asked_for(request, context):
    status = request.response_status
    if status.code != 0:
        context.abort(CODES.get(status.code, grpc.StatusCode.UNKNOWN), status.message)


def answers(request):
    for parameters in request.response_parameters:
        time.sleep(parameters.interval_us / 1e6)
        yield testing.StreamingOutputCallResponse(payload=testing.Payload(body=bytes(parameters.size)))


class Testing(services.TestServiceServicer):
    def EmptyCall(self, request, context):
        echo(context)
        return testing.Empty()

    def UnaryCall(self, request, context):
        echo(context)
        asked_for(request, context)
        return testing.SimpleResponse(payload=testing.Payload(body=bytes(request.response_size)))

    def StreamingOutputCall(self, request, context):
        echo(context)
        asked_for(request, context)
        yield from answers(request)

    def StreamingInputCall(self, requests, context):
        echo(context)
        total = sum(len(request.payload.body) for request in requests)
        return testing.StreamingInputCallResponse(aggregated_payload_size=total)

    def FullDuplexCall(self, requests, context):
        echo(context)
        for request in requests:
            asked_for(request, context)
            yield from answers(request)

    def HalfDuplexCall(self, requests, context):
        echo(context)
        for request in list(requests):
            asked_for(request, context)
            yield from answers(request)


class Witnessing(witnesses.WitnessServicer):
    def Budget(self, request, context):
        left = context.time_remaining()
        limited = left is not None and left < UNLIMITED
        return witness.Left(limited=limited, micros=int(left * 1e6) if limited else 0)


def main():
    options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    server = grpc.server(ThreadPoolExecutor(THREADS), options=options)
    services.add_TestServiceServicer_to_server(Testing(), server)
    witnesses.add_WitnessServicer_to_server(Witnessing(), server)
    if len(sys.argv) > 2:
        certificate, key = (open(path, "rb").read() for path in sys.argv[1:3])
        port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(key, certificate)]))
    else:
        port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(f"listens on 127.0.0.1:{port}", flush=True)
    sys.stdin.read()


main()
os._exit(0)

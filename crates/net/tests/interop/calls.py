"""Calls an Echo service as any Python client would: ADDRESS."""

import sys

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

channel = grpc.insecure_channel(sys.argv[1])
once = channel.unary_unary("/evenkeel.test.v1.Echo/Once")
stream = channel.unary_stream("/evenkeel.test.v1.Echo/Stream")


def ask(text, sleep_ms=0, code=0, times=0):
    """evenkeel.test.v1.Ask, written by hand: all numbers are below 128 or sent as two bytes."""
    message = b"\x0a" + bytes([len(text)]) + text
    for key, number in ((0x10, sleep_ms), (0x18, code), (0x20, times)):
        message += bytes([key, number & 0x7F | 0x80, number >> 7])
    return message


answer, call = once.with_call(ask(b"hello"), timeout=10)
assert answer.startswith(b"\x0a\x05hello"), answer
assert call.code() == grpc.StatusCode.OK

assert len(list(stream(ask(b"many", times=3), timeout=10))) == 3

try:
    once(ask(b"gone", code=5), timeout=10)
    raise AssertionError("must fail")
except grpc.RpcError as error:
    assert error.code() == grpc.StatusCode.NOT_FOUND and error.details() == "gone", error

try:
    once(ask(b"late", sleep_ms=10_000), timeout=0.05)
    raise AssertionError("must expire")
except grpc.RpcError as error:
    assert error.code() == grpc.StatusCode.DEADLINE_EXCEEDED, error

health = health_pb2_grpc.HealthStub(channel)
serving = health_pb2.HealthCheckResponse.SERVING
for service in ("", "evenkeel.test.v1.Echo"):
    assert health.Check(health_pb2.HealthCheckRequest(service=service), timeout=10).status == serving
try:
    health.Check(health_pb2.HealthCheckRequest(service="other"), timeout=10)
    raise AssertionError("must be unknown")
except grpc.RpcError as error:
    assert error.code() == grpc.StatusCode.NOT_FOUND, error
unknown = health.Watch(health_pb2.HealthCheckRequest(service="other"), timeout=10)
assert next(unknown).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
unknown.cancel()

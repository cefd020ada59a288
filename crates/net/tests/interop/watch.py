"""Watches a server's health while it leaves, and calls it meanwhile: ADDRESS."""

import sys

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

channel = grpc.insecure_channel(sys.argv[1])
once = channel.unary_unary("/evenkeel.test.v1.Echo/Once")
watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=30)

assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
print("watching", flush=True)
assert next(watch).status == health_pb2.HealthCheckResponse.NOT_SERVING
assert once(b"\x0a\x04late", timeout=10).startswith(b"\x0a\x04late"), "what still arrives is served"
try:
    next(watch)
    raise AssertionError("the stream must end")
except grpc.RpcError as error:
    assert error.code() == grpc.StatusCode.UNAVAILABLE, error

"""Calls an Echo service that refuses SHEDDABLE requests, with gRPC's own retries: ADDRESS."""

import json
import sys

import grpc

policy = {
    "maxAttempts": 4,
    "initialBackoff": "20s",
    "maxBackoff": "20s",
    "backoffMultiplier": 1,
    "retryableStatusCodes": ["UNAVAILABLE", "RESOURCE_EXHAUSTED"],
}
service = {"methodConfig": [{"name": [{}], "retryPolicy": policy}]}
options = [("grpc.enable_retries", 1), ("grpc.service_config", json.dumps(service))]
once = grpc.insecure_channel(sys.argv[1], options).unary_unary("/evenkeel.test.v1.Echo/Once")

try:
    once(b"\x0a\x05hello", timeout=30, metadata=[("evenkeel-criticality", "SHEDDABLE")])
    raise AssertionError("must be refused")
except grpc.RpcError as error:
    print(error.code().name)

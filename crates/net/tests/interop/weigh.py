"""Calls an Echo service through gRPC's own weighted round robin, which goes by load reports: ADDRESS.

gRPC keeps reports from applications, so what it read of them shows only in its trace.
"""

import json
import sys
import time

import grpc

policy = {"weighted_round_robin": {"blackoutPeriod": "0s", "weightUpdatePeriod": "0.1s"}}
options = [("grpc.service_config", json.dumps({"loadBalancingConfig": [policy]}))]
channel = grpc.insecure_channel(f"ipv4:{sys.argv[1]}", options=options)
once = channel.unary_unary("/evenkeel.test.v1.Echo/Once")

for _ in range(20):
    assert once(b"\x0a\x05hello", timeout=10).startswith(b"\x0a\x05hello")
    time.sleep(0.02)

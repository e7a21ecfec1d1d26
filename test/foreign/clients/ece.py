"""Decrypt Web Push bodies with http_ece: each line of input is body, private key and auth secret in base64."""

import base64
import sys

import http_ece
from cryptography.hazmat.primitives.asymmetric import ec

for line in sys.stdin:
    body, private, auth = (base64.b64decode(field) for field in line.split())
    key = ec.derive_private_key(int.from_bytes(private, "big"), ec.SECP256R1())
    plain = http_ece.decrypt(body, private_key=key, auth_secret=auth, version="aes128gcm")
    print(base64.b64encode(plain).decode())

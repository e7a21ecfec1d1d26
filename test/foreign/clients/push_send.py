"""Sends one message with pywebpush. What to send is JSON on standard input; the status and the Location of the answer are printed."""
import json
import sys

from pywebpush import WebPushException, webpush

what = json.load(sys.stdin)
try:
    answer = webpush(
        what["subscription"],
        data=what["text"],
        vapid_private_key=what["private"],
        vapid_claims={"sub": "mailto:ops@example.org"},
        ttl=what["ttl"],
        content_encoding=what["encoding"] or "aes128gcm",
        headers={"Topic": what["topic"]} if what["topic"] else {},
    )
except WebPushException as failure:
    answer = failure.response
print(answer.status_code, answer.headers.get("Location", ""))

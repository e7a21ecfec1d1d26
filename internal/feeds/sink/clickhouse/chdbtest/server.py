"""ClickHouse's engine (chdb) behind as much of its HTTP interface as a sink needs, for tests: server.py FOLDER [PORT].

It prints its port.
"""

import gzip
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qsl, urlsplit

from chdb import session

engine = session.Session(sys.argv[1])


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        settings = dict(parse_qsl(urlsplit(self.path).query))
        statement = settings.pop("query", None)
        settings.pop("wait_end_of_query", None)  # of the HTTP interface alone
        text = body.decode("utf-8")
        try:
            if statement is None:
                answer = engine.query(text, "TSV").bytes()
            else:
                head, _, form = statement.partition(" FORMAT ")
                set_to = ", ".join(f"{k} = '{v}'" for k, v in settings.items())
                answer = engine.query(f"{head} SETTINGS {set_to} FORMAT {form}\n{text}", "TSV").bytes()
            status = 200
        except Exception as e:  # what the engine refuses
            status, answer = 400, str(e).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args):
        pass


server = HTTPServer(("127.0.0.1", int(sys.argv[2]) if len(sys.argv) > 2 else 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()

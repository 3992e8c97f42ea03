# SPDX-License-Identifier: Apache-2.0
"""file_server.py: an HTTP server for the tests of downloads, which misbehaves as its path says.

Prints its port and serves until its standard input ends.  Byte i of a file is (i * i * 31 + i // 251 + V) % 256,
where V is the file's version, so a test knows every byte of it.  Paths:

  /plain/SIZE        a good server: ranges, If-Range, a strong ETag
  /dated/SIZE        a good server without ETags: Last-Modified only
  /bare/SIZE         ranges, but nothing that names the version
  /drop/SIZE/N       hangs up after N bytes of every answer
  /norange/SIZE      ignores Range
  /norange-drop/SIZE/N   ignores Range and hangs up after N bytes of the first answer
  /changing/SIZE/N   another version after the first answer, which hangs up after N bytes
  /careless/SIZE/N   the same, but ignores If-Range and so mixes versions; its ETag tells
  /mixing/SIZE/N     the same without any validator: only a digest notices
  /shifted/SIZE/N    hangs up after N bytes, then sends ranges from 10 bytes further on
  /short/SIZE/N      hangs up after N bytes of the first answer, then sends N bytes of each range, and says so
  /chunked/SIZE[/NAME]   no Content-Length
  /slow/SIZE         10 KB every 50 ms
  /status/CODE[/N]   that status, for the first N requests; then a file of 1,000 bytes
  /redirect/PORT/PATH…   302 to that path, on "localhost" at PORT where PORT is not 0
  /loop              302 to itself
  /files/PATH        that file below the folder given as argument, with ranges; index.html for a folder
  /slow-files/PATH   the same, 10 KB every 50 ms
  /log               what was asked so far, one line each: PATH|Range|If-Range|Authorization
"""
import http.server
import os
import re
import sys
import threading
import time
import urllib.parse
import zlib

FOLDER = sys.argv[1] if len(sys.argv) > 1 else "."


def content(size, version=0):
    return bytes((i * i * 31 + i // 251 + version) % 256 for i in range(size))


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    counts, log, lock = {}, [], threading.Lock()

    def log_message(self, *_):
        pass

    def handle(self):
        try:
            super().handle()
        except ConnectionError:
            pass  # the other side was killed

    def do_GET(self):
        parts = [urllib.parse.unquote(part) for part in self.path.split("?")[0].strip("/").split("/")]
        with self.lock:
            self.counts[self.path] = self.counts.get(self.path, 0) + 1
            self.nth = self.counts[self.path]
            if parts[0] != "log":
                fields = [self.headers.get(h) or "" for h in ("Range", "If-Range", "Authorization")]
                self.log.append("|".join([self.path, *fields]))
        try:
            getattr(self, "serve_" + parts[0].replace("-", "_"))(*parts[1:])
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    # Sends data (honouring Range unless told not to); cut: hang up after so many bytes of the body.
    def send_file_data(self, data, etag=None, modified=None, ranges=True, conditional=True, cut=None, shift=0, pause=0,
                       kind=None, most=None):
        status, start = 200, 0
        match = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
        condition = self.headers.get("If-Range")
        if match and ranges and (not conditional or condition in (None, etag, modified)):
            status, start = 206, int(match[1])
        if start >= len(data) and status == 206:
            return self.send_plain(416, b"", {"Content-Range": "bytes */%d" % len(data)})
        body = data[min(start + (shift if status == 206 else 0), len(data)):]
        first = len(data) - len(body)
        if most and status == 206:
            body = body[:most]
        self.send_response(status)
        if status == 206:
            self.send_header("Content-Range", "bytes %d-%d/%d" % (first, first + len(body) - 1, len(data)))
        for name, value in (("ETag", etag), ("Last-Modified", modified), ("Content-Type", kind)):
            if value:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        sent = body if cut is None else body[:cut]
        step = 10000 if pause else 1 << 16
        for at in range(0, len(sent), step):
            self.wfile.write(sent[at:at + step])
            time.sleep(pause)
        if len(sent) < len(body):
            self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(2)

    def send_plain(self, status, body=b"", headers={}):
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def serve_plain(self, size):
        self.send_file_data(content(int(size)), etag='"v0"')

    def serve_dated(self, size):
        self.send_file_data(content(int(size)), modified="Mon, 02 Nov 2026 10:00:00 GMT",
                            cut=int(size) // 2 if self.nth == 1 else None)

    def serve_bare(self, size):
        self.send_file_data(content(int(size)))

    def serve_drop(self, size, cut):
        self.send_file_data(content(int(size)), etag='"v0"', cut=int(cut))

    def serve_norange(self, size):
        self.send_file_data(content(int(size)), ranges=False)

    def serve_norange_drop(self, size, cut):
        self.send_file_data(content(int(size)), etag='"v0"', ranges=False, cut=int(cut) if self.nth == 1 else None)

    def serve_changing(self, size, cut, conditional=True, named=True):
        version = 0 if self.nth == 1 else 1
        self.send_file_data(content(int(size), version), etag='"v%d"' % version if named else None,
                            conditional=conditional, cut=int(cut) if self.nth == 1 else None)

    def serve_careless(self, size, cut):
        self.serve_changing(size, cut, conditional=False)

    def serve_mixing(self, size, cut):
        self.serve_changing(size, cut, conditional=False, named=False)

    def serve_shifted(self, size, cut):
        self.send_file_data(content(int(size)), etag='"v0"', cut=int(cut) if self.nth == 1 else None, shift=10)

    def serve_short(self, size, cut):
        self.send_file_data(content(int(size)), etag='"v0"', cut=int(cut) if self.nth == 1 else None, most=int(cut))

    def serve_slow(self, size):
        self.send_file_data(content(int(size)), etag='"v0"', pause=0.05)

    def serve_chunked(self, size, *_):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        data = content(int(size))
        for at in range(0, len(data), 1000):
            piece = data[at:at + 1000]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")

    def serve_status(self, code, times="1000000"):
        if self.nth <= int(times):
            return self.send_plain(int(code), b"<html>trouble</html>")
        self.send_file_data(content(1000), etag='"v0"')

    def serve_redirect(self, port, *rest):
        where = "" if port == "0" else "http://localhost:%s" % port
        self.send_plain(302, b"moved", {"Location": where + "/" + "/".join(rest)})

    def serve_loop(self):
        self.send_plain(302, b"", {"Location": "/loop"})

    def serve_files(self, *names, pause=0):
        path = os.path.join(FOLDER, *names)
        if os.path.isdir(path):
            path = os.path.join(path, "index.html")
        if not os.path.isfile(path):
            return self.send_plain(404)
        with open(path, "rb") as file:
            data = file.read()
        kind = "text/html" if path.endswith(".html") else "application/octet-stream"
        self.send_file_data(data, etag='"%08x"' % zlib.crc32(data), kind=kind, pause=pause)

    def serve_slow_files(self, *names):
        self.serve_files(*names, pause=0.05)

    def serve_log(self):
        self.send_plain(200, "".join(line + "\n" for line in self.log).encode())


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()

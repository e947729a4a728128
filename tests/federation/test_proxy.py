"""Sites behind an HTTP proxy: gRPC asks it for a tunnel (CONNECT), through which TLS goes as it is."""

import socket
import threading
from contextlib import suppress

import pytest
from test_identity import folders  # noqa: F401
from test_intruders import TEXT, Listener
from test_links import count

from crossgrad.federation.identity import Identity
from crossgrad.federation.links import Connections
from crossgrad.federation.queries import Inquirer
from crossgrad.federation.reading import parse_federation
from crossgrad.federation.rehearsal import free_ports


class Proxy:
    """Opens the tunnels that it is asked for, and remembers how they began."""

    def __init__(self):
        self.server, self.tunnels, self.first_bytes = socket.create_server(("127.0.0.1", 0)), [], []
        self.sockets = [self.server]
        self.address = f"http://127.0.0.1:{self.server.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        for each in self.sockets:
            with suppress(OSError):  # one that the other end has closed
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self):
        while True:
            try:
                near, _ = self.server.accept()
            except OSError:  # it was closed
                return
            head = b""
            while b"\r\n\r\n" not in head:
                head += near.recv(1)
            method, where, _ = head.split(b"\r\n")[0].decode().split()
            self.tunnels.append((method, where))
            host, port = where.rsplit(":", 1)
            far = socket.create_connection((host, int(port)))
            self.sockets += [near, far]
            near.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            for source, sink, keep in ((near, far, self.first_bytes), (far, near, [])):
                threading.Thread(target=self._pump, args=(source, sink, keep), daemon=True).start()

    @staticmethod
    def _pump(source, sink, keep):
        try:
            while data := source.recv(1 << 16):
                keep.append(data[:2])
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            return


@pytest.mark.parametrize("variable", ["http_proxy", "https_proxy"])
def test_a_site_dials_out_through_an_http_proxy_which_sees_only_tls(folders, monkeypatch, variable):  # noqa: F811
    proxy = Proxy()
    for name in ("grpc_proxy", "http_proxy", "https_proxy", "no_proxy", "no_grpc_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, proxy.address)
    federation = parse_federation(TEXT.format(port=free_ports(1)[0], seed=0))
    listeners = {name: Listener() for name in "ab"}
    links = {name: Connections(federation, Identity.load(folders / name, name), listeners[name], 1000) for name in "ab"}
    for each in links.values():
        each.start()
    try:
        for listener in listeners.values():
            listener.wait_for(count("connected"))
        assert Inquirer(federation, Identity.load(folders / "b", "b"), "a").status().about["step"] == 7
    finally:
        for each in links.values():
            each.stop()
        proxy.close()
    assert set(proxy.tunnels) == {("CONNECT", federation.sites[0].listen)}
    assert proxy.first_bytes[0] == b"\x16\x03"  # a TLS handshake

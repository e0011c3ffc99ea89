"""Serves a World over HTTPS as an API server does: discovery, lists (gzipped when asked), watches, bookmarks."""

from __future__ import annotations

import asyncio
import gzip
import ipaddress
import json
import ssl
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from apiserver.world import LISTS, World, discovery

BOOKMARK_SECONDS = 60.0
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


class Server:
    """`rate` pod changes a second, told to every watch of pods."""

    def __init__(self, world: World, rate: float) -> None:
        self.world = world
        self.rate = rate
        self._watches: dict[asyncio.StreamWriter, str] = {}

    async def run(self, folder: Path) -> None:
        """Write certificate and kubeconfig into the folder, say the port on stdout, serve until killed."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate(folder))
        server = await asyncio.start_server(self._talk, "127.0.0.1", 0, ssl=context)
        port = server.sockets[0].getsockname()[1]
        (folder / "kubeconfig").write_text(json.dumps(kubeconfig(port, folder)))
        print(port, flush=True)
        await asyncio.gather(server.serve_forever(), self._change(), self._mark())

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                target = head.split(" ", 2)[1]
                path, _, query = target.partition("?")
                if "watch=" in query and "watch=false" not in query:
                    writer.write(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
                    self._watches[writer] = path
                    await reader.read()
                    break
                self._answer(writer, path, accepts_gzip="gzip" in head)
                await writer.drain()
        self._watches.pop(writer, None)
        writer.close()

    def _answer(self, writer: asyncio.StreamWriter, path: str, *, accepts_gzip: bool) -> None:
        if path == "/apis":
            body = discovery()
        elif path == "/version":
            body = {"gitVersion": "v1.35.4"}
        elif path in LISTS:
            kind, api_version = LISTS[path]
            items = list(self.world.pods.values()) if path.endswith("/pods") else self.world.lists[path]
            meta = {"resourceVersion": str(self.world.version)}
            body = {"kind": f"{kind}List", "apiVersion": api_version, "metadata": meta, "items": items}
        else:
            writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}")
            return
        content, encoding = json.dumps(body, separators=(",", ":")).encode(), b""
        if accepts_gzip and len(content) > 128 * 1024:
            content, encoding = gzip.compress(content, 4), b"Content-Encoding: gzip\r\n"
        writer.write(HEAD + encoding + b"Content-Length: %d\r\n\r\n" % len(content) + content)

    async def _change(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        for kind, pod in self.world.changes():
            due += 1 / self.rate
            await asyncio.sleep(max(0.0, due - loop.time()))
            self._tell("/api/v1/pods", {"type": kind, "object": {"kind": "Pod", "apiVersion": "v1", **pod}})

    async def _mark(self) -> None:
        while True:
            await asyncio.sleep(BOOKMARK_SECONDS)
            meta = {"resourceVersion": str(self.world.version)}
            for path, (kind, api_version) in LISTS.items():
                mark = {"kind": kind, "apiVersion": api_version, "metadata": meta}
                self._tell(path, {"type": "BOOKMARK", "object": mark})

    def _tell(self, path: str, event: object) -> None:
        line = json.dumps(event, separators=(",", ":")).encode() + b"\n"
        chunk = b"%x\r\n%s\r\n" % (len(line), line)
        for writer, watched in list(self._watches.items()):
            if watched == path:
                writer.write(chunk)


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for loopback that is its own CA."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bench")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "tls.key").write_bytes(key.private_bytes(*form))
    (folder / "tls.crt").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    return folder / "tls.crt", folder / "tls.key"


def kubeconfig(port: int, folder: Path) -> dict[str, object]:
    """How to reach it."""
    cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority": str(folder / "tls.crt")}
    return {
        "current-context": "bench",
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
        "clusters": [{"name": "bench", "cluster": cluster}],
        "users": [{"name": "bench", "user": {"token": "none"}}],
    }


if __name__ == "__main__":
    nodes, pods, rate, where = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), Path(sys.argv[4])
    with suppress(KeyboardInterrupt):
        asyncio.run(Server(World(nodes, pods), rate).run(where))

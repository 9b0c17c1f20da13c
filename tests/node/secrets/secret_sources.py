"""Where a node's configuration has secrets: a manifest URL that asks for them, and a credential provider that prints one."""

import http.server
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def manifest_url(secret: str, pods: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Serve the pods of a list, as it is then, to whoever sends the secret in header and query; yields keys of KubeletConfiguration."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.headers["X-Token"] == secret and secret in self.path
            content = (
                json.dumps({"apiVersion": "v1", "kind": "PodList", "items": list(pods)}).encode() if known else b""
            )
            self.send_response(200 if known else 403)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Write nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            url = f"http://robot:{secret}@127.0.0.1:{server.server_address[1]}/pods?token={secret}"
            yield {"staticPodURL": url, "staticPodURLHeader": {"X-Token": [secret]}, "httpCheckFrequency": "1s"}
        finally:
            server.shutdown()
            thread.join()


def credential_provider(folder: Path, secret: str, *hosts: str) -> list[str]:
    """Install a program that prints a login and repeats it on stderr, and two that fail with it; returns the node's flags."""
    folder.mkdir()
    answer = {
        "kind": "CredentialProviderResponse",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "cacheKeyType": "Image",
        "auth": {host: {"username": "robot", "password": secret} for host in hosts},
    }
    (folder / "provider").write_text(f"#!/bin/sh\necho {secret} >&2\ncat <<END\n{json.dumps(answer)}\nEND\n")
    (folder / "broken").write_text(f'#!/bin/sh\necho "{{{secret}"\necho "no luck with {secret}" >&2\nexit 1\n')
    (folder / "torn").write_text(f'#!/bin/sh\necho "{{{secret}"\n')
    programs = ("provider", "broken", "torn")
    common = {"defaultCacheDuration": "0s", "apiVersion": answer["apiVersion"]}
    providers = [{"name": name, "matchImages": list(hosts), **common} for name in programs]
    config = {"apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig", "providers": providers}
    (folder / "config.json").write_text(json.dumps(config))
    for program in programs:
        (folder / program).chmod(0o755)
    return [
        f"--image-credential-provider-config={folder}/config.json",
        f"--image-credential-provider-bin-dir={folder}",
    ]

"""The options of `tempolet join` and `tempolet leave`; their code is in `worker/joining`."""

import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Final

import typer

from worker.commands.access.exits import CommandFailed, Exit

_LARGEST: Final = 64 * 1024

Server = Annotated[str, typer.Argument(metavar="[URL]", help="The API server, for example https://10.0.0.1:6443.")]
Token = Annotated[
    str,
    typer.Option(
        help="Bootstrap token, ID.SECRET. Every user of this machine can see it in `ps`: better --token-file."
    ),
]
TokenFile = Annotated[
    Path | None, typer.Option("--token-file", allow_dash=True, help="A file with the token; - reads stdin.")
]
CaHash = Annotated[
    list[str] | None,
    typer.Option("--ca-hash", metavar="sha256:HEX", help="Hash of the CA's public key; may be repeated."),
]
Address = Annotated[str, typer.Option("--temporal", metavar="HOST:PORT", help="Temporal's frontend.")]
Namespace = Annotated[str, typer.Option("--temporal-namespace", help="Its namespace [tempolet].")]
TemporalCa = Annotated[
    Path | None, typer.Option("--temporal-tls-ca", exists=True, dir_okay=False, help="CA of its certificate.")
]
TemporalCert = Annotated[
    Path | None, typer.Option("--temporal-tls-cert", exists=True, dir_okay=False, help="Client certificate for it.")
]
TemporalKey = Annotated[
    Path | None, typer.Option("--temporal-tls-key", exists=True, dir_okay=False, help="Key of that certificate.")
]
TemporalServerName = Annotated[str, typer.Option("--temporal-tls-server-name", help="Name in its certificate.")]
ApiKeyFile = Annotated[
    Path | None, typer.Option("--temporal-api-key-file", allow_dash=True, help="A file with an API key; - reads stdin.")
]
NodeIp = Annotated[str, typer.Option("--node-ip", help="The node's address, or one of each family.")]
Name = Annotated[str, typer.Option("--hostname-override", help="The node's name [the hostname].")]
Runtime = Annotated[
    str, typer.Option("--container-runtime-endpoint", help="The CRI socket [unix:///run/containerd/containerd.sock].")
]
Config = Annotated[
    Path | None,
    typer.Option(exists=True, dir_okay=False, help="KubeletConfiguration [the cluster's ConfigMap kubelet-config]."),
]
OwnConfig = Annotated[
    Path | None, typer.Option("--tempolet-config", exists=True, dir_okay=False, help="TempoletConfiguration.")
]
ForKubeadm = Annotated[
    bool, typer.Option("--for-kubeadm", help="Only install the services, in the kubelet's place: `kubeadm join` joins.")
]
Wait = Annotated[float, typer.Option("--wait", min=0, max=3600, help="Seconds until the Node must be Ready.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Tell each step, and change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
Purge = Annotated[bool, typer.Option("--purge", help="Remove payload.keys, edited files and the pods' logs, too.")]


def add_to(app: typer.Typer) -> None:
    """Register both commands."""
    app.command(short_help="Make this machine a node of a cluster.")(join)
    app.command(short_help="End this machine's pods, and undo what join did.")(leave)


def join(  # noqa: PLR0913, PLR0917 - one parameter an option, as typer requires
    server: Server = "",
    ca_hash: CaHash = None,
    token: Token = "",
    token_file: TokenFile = None,
    temporal: Address = "",
    temporal_namespace: Namespace = "",
    temporal_tls_ca: TemporalCa = None,
    temporal_tls_cert: TemporalCert = None,
    temporal_tls_key: TemporalKey = None,
    temporal_tls_server_name: TemporalServerName = "",
    temporal_api_key_file: ApiKeyFile = None,
    node_ip: NodeIp = "",
    hostname_override: Name = "",
    container_runtime_endpoint: Runtime = "",
    config: Config = None,
    tempolet_config: OwnConfig = None,
    for_kubeadm: ForKubeadm = False,  # noqa: FBT002 - an option
    wait: Wait = 180.0,
    dry_run: DryRun = False,  # noqa: FBT002 - an option
) -> None:
    """Make this machine a node of a cluster: prove the cluster, write the files, start the services, wait until it is Ready.

    Run again, it changes nothing, or goes on where it was interrupted. `tempolet leave` undoes it.
    """
    from worker.joining.join import Joining
    from worker.joining.places import Places
    from worker.joining.request import BootstrapToken, JoinRequest, Temporal, ca_hashes, server_of

    if for_kubeadm and (server or ca_hash or token or token_file or config):
        raise CommandFailed(
            "--for-kubeadm: without URL, --ca-hash, --token, --token-file and --config, which kubeadm has", Exit.USAGE
        )
    if not for_kubeadm and not server:
        raise CommandFailed("URL is missing: the API server, for example https://10.0.0.1:6443", Exit.USAGE)
    if token and token_file is not None:
        raise CommandFailed("--token and --token-file: give one of them", Exit.USAGE)
    if str(token_file) == str(temporal_api_key_file) == "-":
        raise CommandFailed("--token-file and --temporal-api-key-file: only one of them can be stdin", Exit.USAGE)
    if not temporal:
        raise CommandFailed(
            "--temporal is missing: HOST:PORT of the Temporal that drives this node (deploy/cluster.md, step 3)",
            Exit.USAGE,
        )
    if token:
        typer.echo(
            "warning: other users could see the token in `ps`; --token-file FILE, or - for stdin, avoids that", err=True
        )
    given = token or (_secret(token_file, "--token-file") if token_file is not None else "")
    request = JoinRequest(
        server="" if for_kubeadm else server_of(server),
        hashes=frozenset() if for_kubeadm else ca_hashes(ca_hash or ()),
        token=BootstrapToken.parse(given) if given else None,
        temporal=Temporal(
            address=temporal,
            namespace=temporal_namespace,
            authority=temporal_tls_ca,
            certificate=temporal_tls_cert,
            key=temporal_tls_key,
            server_name=temporal_tls_server_name,
            api_key=_secret(temporal_api_key_file, "--temporal-api-key-file") if temporal_api_key_file else "",
        ),
        node_ip=node_ip,
        hostname_override=hostname_override,
        endpoint=container_runtime_endpoint,
        config=config,
        tempolet_config=tempolet_config,
        for_kubeadm=for_kubeadm,
    )
    Joining(request, Places(), typer.echo, timedelta(seconds=wait), dry_run=dry_run).run()


def leave(
    yes: Yes = False,  # noqa: FBT002 - an option
    purge: Purge = False,  # noqa: FBT002 - an option
) -> int:
    """Stop the services of `tempolet join`, end the node's pods, unmount their volumes, and remove the files that join made."""
    from worker.joining.leave import Leaving
    from worker.joining.places import Places

    def confirmed() -> bool:
        if yes:
            return True
        if not sys.stdin.isatty():
            raise CommandFailed("nothing was changed: there is no terminal to ask on; give --yes", Exit.USAGE)
        return typer.confirm("Go on?")

    if not Leaving(Places(), typer.echo, confirmed, purge=purge).run():
        raise CommandFailed("nothing was changed")
    return Exit.DONE


def _secret(path: Path, option: str) -> str:
    """Read a file with a secret, or stdin for `-`; raises CommandFailed."""
    descriptor = sys.stdin.fileno() if str(path) == "-" else os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb", closefd=str(path) != "-") as file:
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST or not data.strip():
        raise CommandFailed(f"{option}: empty, or more than {_LARGEST} bytes", Exit.USAGE)
    try:
        return data.decode("ascii").strip()
    except UnicodeDecodeError:
        raise CommandFailed(f"{option}: not text", Exit.USAGE) from None

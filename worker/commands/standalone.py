"""The options of `tempolet up` and `tempolet down`; their code is in `worker/standalone`."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from worker.commands.access.exits import CommandFailed, Exit

if TYPE_CHECKING:
    from worker.settings.flags import Flags
    from worker.standalone.pod_network.network import PodNetwork
    from worker.standalone.settings import Ports, Settings

HELLO: Final = Path(__file__).parents[1] / "standalone" / "examples" / "hello.yaml"
"""In a checkout a link leads there."""
StateDir = Annotated[
    Path | None,
    typer.Option("--state-dir", envvar="TEMPOLET_STATE_DIR", help="Folder of persistent state [/var/lib/tempolet]."),
]
RunDir = Annotated[
    Path | None,
    typer.Option(
        "--run-dir",
        envvar="TEMPOLET_RUN_DIR",
        help="Folder of sockets and pid files; `down` and other commands find the node by it [/run/tempolet].",
    ),
]
Purge = Annotated[
    bool, typer.Option("--purge", help="Remove the node's state too: manifests, objects, certs.d, logs, images, keys.")
]
Config = Annotated[
    Path | None, typer.Option("--config", help="KubeletConfiguration file, for keys that `up` does not set itself.")
]
OwnConfig = Annotated[Path | None, typer.Option("--tempolet-config", help="TempoletConfiguration file, likewise.")]
ProviderConfig = Annotated[
    Path | None, typer.Option("--image-credential-provider-config", help="CredentialProviderConfig, a file or folder.")
]
ProviderPrograms = Annotated[
    Path | None, typer.Option("--image-credential-provider-bin-dir", help="Folder of its programs.")
]
Manifests = Annotated[list[Path] | None, typer.Argument(help="Manifests to put into the node's folder.")]
Hello = Annotated[bool, typer.Option("--hello", help="Put a pod into it that says hello: examples/hello.yaml.")]
Runtime = Annotated[
    str, typer.Option("--container-runtime-endpoint", help="Socket of a running containerd [a private one is started].")
]
Name = Annotated[str, typer.Option("--hostname-override", help="The node's name [the hostname].")]
Kubeconfig = Annotated[
    Path | None,
    typer.Option(
        "--kubeconfig", exists=True, dir_okay=False, help="Join the cluster of this API server [none: standalone]."
    ),
]
NodeIp = Annotated[str, typer.Option("--node-ip", help="The address by which the cluster reaches this node.")]
Bridge = Annotated[str, typer.Option(help="Bridge of the private containerd's pods.")]
PodCidr = Annotated[str, typer.Option("--pod-cidr", help="Their subnet.")]
CgroupRoot = Annotated[str, typer.Option("--cgroup-root", help="Cgroup below which pods live.")]
TemporalUiPort = Annotated[int, typer.Option(help="Port of the Temporal UI on loopback, which asks for a token.")]
Systemd = Annotated[
    bool | None,
    typer.Option(
        "--systemd/--no-systemd",
        help="Run the processes as units, which come back after a crash and at each boot [where systemd is PID 1].",
    ),
]
HealthzPort = Annotated[int, typer.Option(help="The worker's healthz; the poller's is the next one.")]


def add_to(app: typer.Typer) -> None:
    """Register both commands."""
    app.command(short_help="Start a node on this machine and wait for its pods.")(up)
    app.command(short_help="Stop that node and remove everything it left in the kernel.")(down)


def up(  # noqa: PLR0913, PLR0917 - one parameter an option, as typer requires
    manifests: Manifests = None,
    hello: Hello = False,  # noqa: FBT002 - an option
    state_dir: StateDir = None,
    run_dir: RunDir = None,
    config: Config = None,
    own_config: OwnConfig = None,
    provider_config: ProviderConfig = None,
    provider_bin_dir: ProviderPrograms = None,
    runtime: Runtime = "",
    name: Name = "",
    kubeconfig: Kubeconfig = None,
    node_ip: NodeIp = "",
    bridge: Bridge = "tempolet0",
    pod_cidr: PodCidr = "10.213.0.0/22",
    cgroup_root: CgroupRoot = "/tempolet",
    temporal_ui_port: TemporalUiPort = 8233,
    healthz_port: HealthzPort = 10248,
    systemd: Systemd = None,
) -> None:
    """Start a node and wait for its pods.

    Starts Temporal, containerd unless one is given, worker and poller; with --kubeconfig also the node process. Where systemd is PID 1
    they are its units, enabled, so that the node is back after a crash and after a reboot.
    """
    from worker.settings.flags import Flags
    from worker.standalone.settings import Settings

    flags = Flags(
        config=config,
        tempolet_config=own_config,
        hostname_override=name or None,
        kubeconfig=kubeconfig,
        node_ip=node_ip or None,
        image_credential_provider_config=provider_config,
        image_credential_provider_bin_dir=provider_bin_dir,
    )
    chosen = _places(state_dir, run_dir) | {
        "container_runtime_endpoint": runtime,
        "cgroup": cgroup_root,
        "network": _network(bridge, pod_cidr),
        "ports": _ports(temporal_ui_port, healthz_port),
    }
    chosen["systemd"] = _has_units(Settings(**chosen), asked=systemd)
    _bring_up(flags, chosen, [*(manifests or ()), *((HELLO,) if hello else ())])


def down(
    state_dir: StateDir = None,
    run_dir: RunDir = None,
    purge: Purge = False,  # noqa: FBT002 - an option
) -> int:
    """Stop the node: its pods in order, then everything that `up` started. Leaves nothing in the kernel."""
    from worker.standalone.down import down as take_down
    from worker.standalone.settings import Settings

    with _systemd_answers():
        take_down(Settings(**_places(state_dir, run_dir)), purge=purge)
    return Exit.DONE


def _places(state_dir: Path | None, run_dir: Path | None) -> dict[str, Any]:
    """Return the folders that were given; the others have their defaults."""
    given = {"state_dir": state_dir, "run_dir": run_dir}
    return {name: path.absolute() for name, path in given.items() if path is not None}


def _bring_up(flags: "Flags", chosen: Mapping[str, Any], manifests: Sequence[Path]) -> None:
    """Start a node that is configured by `flags` and these settings; raises CommandFailed."""
    from worker.commands.show import pods
    from worker.daemon.config import load_node_config
    from worker.standalone.given_configuration import read_given
    from worker.standalone.node_config import logs_of, node_flags
    from worker.standalone.settings import Settings
    from worker.standalone.up import up as bring_up

    given, warnings = read_given(flags)
    typer.echo("".join(f"warning: {warning}\n" for warning in warnings), err=True, nl=False)
    settings = Settings(
        hostname_override=flags.hostname_override or "",
        kubeconfig=str(flags.kubeconfig.absolute()) if flags.kubeconfig else "",
        node_ip=flags.node_ip or "",
        given_configuration=given,
        **chosen,
    )
    missing = bring_up(settings, manifests)
    pods.show(load_node_config(node_flags(settings)), output="table", watch=False)
    if missing:
        words = "; ".join(missing)
        raise CommandFailed(f"the node is up, but not every given pod runs: {words} (logs: {logs_of(settings)})")


def _has_units(settings: "Settings", *, asked: bool | None) -> bool:
    """Decide whether the processes are units: as asked, else as those that run, else where there is systemd. Raises CommandFailed."""
    from worker.standalone.machine.units import BOOTED, has_systemd
    from worker.standalone.settings import recorded

    if asked and not has_systemd():
        raise CommandFailed(f"--systemd: systemd is not this machine's PID 1 ({BOOTED} is missing)", Exit.USAGE)
    if asked is not None:
        return asked
    running = recorded(settings.run_dir)
    with _systemd_answers():
        return running.systemd if running and running.is_running() else has_systemd()


@contextlib.contextmanager
def _systemd_answers() -> Iterator[None]:
    """Report that systemd cannot be reached, or refuses, as a command that failed."""
    from activities.clients.systemd.bus import SystemdRefused, SystemdUnavailable

    try:
        yield
    except (SystemdRefused, SystemdUnavailable) as error:
        raise CommandFailed(str(error)) from error


def _network(bridge: str, pod_cidr: str) -> "PodNetwork":
    from worker.standalone.pod_network.network import PodNetwork

    try:
        return PodNetwork(bridge, pod_cidr)
    except ValueError as error:
        raise CommandFailed(str(error), Exit.USAGE) from error


def _ports(temporal_ui: int, healthz: int) -> "Ports":
    from worker.standalone.settings import Ports

    return Ports(temporal_ui, healthz, healthz + 1 if healthz else 0)
